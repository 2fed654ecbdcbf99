"""Explain why a row has a run, or none."""
