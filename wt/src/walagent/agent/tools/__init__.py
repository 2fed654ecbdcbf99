"""Tools: what a call becomes."""
