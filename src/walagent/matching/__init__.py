"""Select the attachments that act on a change.  Pure: values in, values out."""
