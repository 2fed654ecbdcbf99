"""The commands for the WAL: changes, gaps and the slot."""
