"""Values on their way into the database and out of it, where the driver's own forms do not fit."""
