"""Replays, evaluations and datasets."""
