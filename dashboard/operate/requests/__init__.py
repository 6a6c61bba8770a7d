"""Requests to the job: what-if trials, state store readings and replays."""
