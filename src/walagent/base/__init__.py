"""What knows nothing of walagent: waiting, racing, failing on purpose, extras."""
