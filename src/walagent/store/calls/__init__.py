"""Calls of models that wait for others: equal ones, and batches."""
