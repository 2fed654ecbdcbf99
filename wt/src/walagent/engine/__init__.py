"""Where WAL, matching, store and agent meet: intake turns changes into runs, workers work them."""
