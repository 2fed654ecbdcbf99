"""From the WAL's bytes to transactions of changes: connection, decoders, slots, publications."""
