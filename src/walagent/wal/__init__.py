"""Decode WAL bytes into transactions of changes: connection, decoders, slots, publications."""
