"""The processes: the daemon, workers, servers and examples."""
