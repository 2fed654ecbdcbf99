"""The commands for threads and teams."""
