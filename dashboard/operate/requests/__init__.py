"""Requests to the job: rules tried on the log, readings of its state store, replays."""
