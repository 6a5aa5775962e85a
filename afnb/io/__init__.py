"""The edges: files, sockets, processes, clocks."""
