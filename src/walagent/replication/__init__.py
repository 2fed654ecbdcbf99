"""The running reader: slot, publications, checkpoint, gaps, and the sinks it feeds."""
