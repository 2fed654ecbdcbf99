"""Try an agent on real rows, with the engine of real runs, in transactions that are rolled back."""
