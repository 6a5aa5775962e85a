"""File formats: each module has a ``detect`` and a ``load``."""
