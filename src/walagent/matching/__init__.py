"""Which attachment acts on which change.  Values in, values out; nothing here does I/O."""
