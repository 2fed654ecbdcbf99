"""The commands for the database itself."""
