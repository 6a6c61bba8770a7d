"""Who reports: statistics, faults, mutes."""
