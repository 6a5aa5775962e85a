"""The command line. Standard library only until a command runs: see ``app.main``."""

from __future__ import annotations

from afnb.cli.app import main

__all__ = ["main"]
