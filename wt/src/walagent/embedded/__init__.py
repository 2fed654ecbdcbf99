"""The PostgreSQL server that comes from the package index: found, started, joined, stopped."""
