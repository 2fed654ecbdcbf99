"""What a process says of itself: log, metrics, and the masking of secrets."""
