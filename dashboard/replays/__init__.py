"""Replays: where the job is to read its log again from, and what came of it."""
