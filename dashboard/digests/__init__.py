"""Digests: a mail about the last day or week of a scenario, to who subscribes to it."""
