"""Runs from claim to end: claim, decide, act, record."""
