"""A question in plain words → a plan → read-only statements → an answer with its proof.

plan → (critic) → steps: SQL, ANALYZE, SEARCH, VERIFY → (critic) → answer
"""
