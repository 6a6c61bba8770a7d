"""The audit: the log of who did what, and its hash chain."""
