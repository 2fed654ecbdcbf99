"""The commands for runs."""
