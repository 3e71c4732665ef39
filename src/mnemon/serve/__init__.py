"""A model that learns while it serves: journal, service, HTTP, client."""
