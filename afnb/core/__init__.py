"""Pure values of afnb: standard library only, no files, clocks, sockets or randomness."""
