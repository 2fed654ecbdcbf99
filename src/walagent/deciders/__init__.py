"""What a run does next, for each kind of run: pure functions of its recorded steps."""
