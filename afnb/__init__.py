"""afnb finds the step that made an agent fail, by experiment."""

from __future__ import annotations

__version__ = "0.1.0"
