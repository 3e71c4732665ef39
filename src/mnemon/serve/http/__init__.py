"""The HTTP interface; all that needs the extra `mnemon[serve]` is here."""
