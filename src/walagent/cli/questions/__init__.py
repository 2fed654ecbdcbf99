"""The commands that answer questions."""
