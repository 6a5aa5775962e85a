"""``python -m afnb`` is the ``afnb`` command."""

from __future__ import annotations

import sys

from afnb.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
