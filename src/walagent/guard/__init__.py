"""Whether SQL that somebody else wrote may run, decided by PostgreSQL's own analysis of it.

statement → parsed read-only → analysed (a view that is rolled back) → evaluated → cost → read

`statement` looks at the text only as far as it must; nothing there is a boundary.  `tree` reads
the rule that the server stored, `analysis` evaluates every function, operator, type and relation in
it against `known`, `role` refuses logins that could write, and `query` runs what is left.

Beside that, `repeats` says what a statement that ran has counted more than once; it looks into the
same rule with its nesting (`rule`, `levels`, `keys`, `joins`), and allows and refuses nothing.
"""
