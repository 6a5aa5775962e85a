"""Which module reads a request."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import TYPE_CHECKING, cast

from afnb.core.cassette import Request
from afnb.core.providers import (
    anthropic,
    gemini,
    ollama,
    openai_chat,
    openai_responses,
    openai_text,
)
from afnb.core.providers.base import Ask, json_object
from afnb.errors import ParameterError

if TYPE_CHECKING:
    from afnb.core.providers.base import Provider

_MODULES: tuple[ModuleType, ...] = (
    openai_chat,
    anthropic,
    openai_responses,
    gemini,
    ollama,
    openai_text,
)
_CACHED_BYTES = 1_000_000  # larger bodies are parsed each time rather than kept


def _parse(request: Request) -> tuple[Provider, Ask] | None:
    path, _, query = request.path.partition("?")
    path = path.rstrip("/")
    body = json_object(request.body) if request.body else None
    for module in _MODULES:
        provider = cast("Provider", module)
        if provider.matches(request.method.upper(), path, body):
            return provider, Ask(request, path, query, body or {})
    return None


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
