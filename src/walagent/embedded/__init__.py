"""The embedded PostgreSQL server, installed as a Python package."""
