"""What the history of states adds up to: periods of a calendar, spans of time, their sums."""
