"""Connections: common settings, and whom their statements act as."""
