"""How results look: output, tables, progress, charts and pipes."""
