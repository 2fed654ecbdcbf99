"""Warnings about totals that a join counted more than once.  Nothing here refuses a statement."""
