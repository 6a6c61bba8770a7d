"""Batch queries over the log and the state store."""
