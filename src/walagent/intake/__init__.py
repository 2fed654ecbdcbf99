"""Transactions in, runs out: the first sink of the reader."""
