"""Pure values of afnb: standard library only, no files, clocks, sockets or randomness."""

from afnb.core import cards as _cards  # noqa: F401  # recordings show themselves wherever they are made
