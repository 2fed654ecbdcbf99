"""How a thread is written for the model that takes a turn in it."""
