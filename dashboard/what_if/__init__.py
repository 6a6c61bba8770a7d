"""Trials of another rule on a scenario's last hours."""
