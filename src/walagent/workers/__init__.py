"""Compose a worker from the configuration: models, kinds of runs, senders, tools."""
