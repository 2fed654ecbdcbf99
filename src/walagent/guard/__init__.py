"""Decide whether untrusted SQL may run, by PostgreSQL's own analysis of it.

statement → parsed read-only → analyzed (a view that is rolled back) → checked → cost → read

`statement` reads the text as little as possible; nothing in it is a security boundary.  `querytree`
parses the rule that the server stored, `analysis` checks every function, operator, type and
relation in it against `allowlist`, `role` rejects roles that can write, and `query` runs the
statement.
"""
