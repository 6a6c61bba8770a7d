"""Who did what: the log and its hash chain."""
