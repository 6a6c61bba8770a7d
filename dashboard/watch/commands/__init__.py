"""Commands to one asset, and scheduled tasks."""
