"""Scenarios as they are configured, changed from the console, and used by the job."""
