"""The web process."""
