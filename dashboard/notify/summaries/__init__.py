"""Summaries of weeks, months and years, and digests by mail."""
