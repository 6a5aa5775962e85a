"""Credentials in what a report says: recorded texts are masked when they are recorded, foreign ones here.

A recording that afnb made holds no keys. One from elsewhere may, and a path or a label may; whatever has
the shape of a credential is masked in every form of the report.
"""

from __future__ import annotations

import re
from typing import Any

from afnb.core.matching import CREDENTIAL_NAMES, MASK

_SHAPES = (
    r"\bsk-[A-Za-z0-9_-]{12,}",
    r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\b(?:ghp|gho|ghs|ghu|glpat|hf|xai|gsk)[_-][A-Za-z0-9_-]{16,}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,}",
    r"\bxox[abposr]-[A-Za-z0-9-]{10,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}",
    r"(?<=-----BEGIN PRIVATE KEY-----)[\s\S]+?(?=-----END|$)",
)
_SHAPE = re.compile("|".join(_SHAPES))
_NAMES = "|".join(sorted((re.escape(name) for name in CREDENTIAL_NAMES), key=len, reverse=True))
_NAMED = re.compile(rf"(?i)([?&](?:{_NAMES})=)[^&\s'\"<>]{{4,}}")
_BEARER = re.compile(r"(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{12,}")


def masked(text: str) -> str:
    """``text`` with what has the shape of a credential masked.

    Examples
    --------
    >>> masked("asked with sk-proj-1234567890abcdef at https://x.example/v1?api_key=abcdef")
    'asked with MASKED at https://x.example/v1?api_key=MASKED'
    """
    text = _SHAPE.sub(MASK, text)
    text = _NAMED.sub(lambda found: f"{found[1]}{MASK}", text)
    return _BEARER.sub(lambda found: f"{found[1]}{found[2]}{MASK}", text)


def masked_json(value: Any) -> Any:
    """A JSON value with every text in it masked."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, list):
        return [masked_json(item) for item in value]
    if isinstance(value, dict):
        return {key: masked_json(item) for key, item in value.items()}
    return value
