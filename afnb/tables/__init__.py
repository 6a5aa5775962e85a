"""Arrow tables: declared schemas, builders, and vectorised work over them. Pure; no files."""
