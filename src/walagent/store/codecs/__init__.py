"""Encode and decode values where psycopg's own forms do not fit."""
