"""Turn transactions into runs: the first sink of the reader."""
