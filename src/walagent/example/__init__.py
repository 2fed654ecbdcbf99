"""Examples that `walagent example` starts: their SQL is in `examples/` of the repository."""
