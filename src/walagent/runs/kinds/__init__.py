"""The kinds of runs: how each is opened, decided and ended."""
