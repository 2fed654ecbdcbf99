"""The running reader: slot, publications, checkpoint, gaps, and its sinks."""
