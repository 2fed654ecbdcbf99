"""The commands of the first and of every day: prepare, write, try, apply and check."""
