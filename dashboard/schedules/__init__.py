"""Scheduled tasks: what the job will do to assets, when, in whose name, and what came of it."""
