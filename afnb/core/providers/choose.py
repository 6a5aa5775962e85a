"""Which module reads a request."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from afnb.core.cassette import Request
from afnb.core.providers import (
    anthropic,
    bedrock,
    cohere,
    gemini,
    ollama,
    openai_chat,
    openai_responses,
    openai_text,
)
from afnb.core.providers.base import Ask, json_object, objs
from afnb.errors import ParameterError

if TYPE_CHECKING:
    from afnb.core.providers.base import Provider

_MODULES: tuple[ModuleType, ...] = (
    openai_chat,
    anthropic,
    openai_responses,
    gemini,
    ollama,
    bedrock,
    cohere,
    openai_text,
)
_CACHED_BYTES = 1_000_000  # larger bodies are parsed each time rather than kept


def _parse(request: Request) -> tuple[Provider, Ask] | None:
    path, _, query = request.path.partition("?")
    path = path.rstrip("/")
    body = json_object(request.body) if request.body else None
    if "/" not in path and body is not None:  # a recording whose URL was masked
        path = _path_of(body)
    for module in _MODULES:
        provider = cast("Provider", module)
        if provider.matches(request.method.upper(), path, body):
            return provider, Ask(request, path, query, body or {})
    return None


def _path_of(body: Mapping[str, Any]) -> str:
    """The path that a body of this shape is sent to, where the body alone tells."""
    if "input" in body and "model" in body:
        return "/v1/responses"
    if "system" in body or any("input_schema" in tool for tool in objs(body.get("tools"))):
        return "/v1/messages"
    return "/v1/chat/completions"


_parse_cached = functools.lru_cache(maxsize=16)(_parse)


def opened(request: Request) -> tuple[Provider, Ask] | None:
    """The provider and the parsed request; several questions about one request parse it once."""
    return _parse(request) if len(request.body) > _CACHED_BYTES else _parse_cached(request)


def must_open(request: Request) -> tuple[Provider, Ask]:
    """The provider and the parsed request; ``ParameterError`` if it is no model request."""
    found = opened(request)
    if found is None:
        raise ParameterError(
            f"{request.method} {request.path} is not a request to a model that afnb can read"
        )
    return found
