"""Models, tools, and the pure decision what a run does next.  Knows no SQL of our schema."""
