"""The REST interface, and whether the whole is ready."""
