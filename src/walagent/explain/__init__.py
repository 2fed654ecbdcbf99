"""Why a row has a run, or none."""
