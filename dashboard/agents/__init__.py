"""Who reports, how they fare, and whose votes count nothing."""
