"""Providers by name: where each of them is, and from which variable its SDKs read a base URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownUpstream:
    """One provider: ``origin``, and the ``variables`` that its SDKs read its base URL from."""

    origin: str
    variables: tuple[str, ...]


KNOWN_UPSTREAMS: Mapping[str, KnownUpstream] = {
    "openai": KnownUpstream("https://api.openai.com", ("OPENAI_BASE_URL",)),
    "anthropic": KnownUpstream("https://api.anthropic.com", ("ANTHROPIC_BASE_URL",)),
    "gemini": KnownUpstream("https://generativelanguage.googleapis.com", ("GOOGLE_GEMINI_BASE_URL",)),
    "mistral": KnownUpstream("https://api.mistral.ai", ("MISTRAL_BASE_URL", "MISTRAL_API_BASE")),
    "ollama": KnownUpstream("http://127.0.0.1:11434", ("OLLAMA_HOST", "OLLAMA_BASE_URL", "OLLAMA_API_BASE")),
}
"""Providers that may be given by name alone."""
