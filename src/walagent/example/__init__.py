"""Examples that `walagent serve example` starts: their SQL is in `examples/` of the repository."""
