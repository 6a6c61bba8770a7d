"""The ways to ask for states in this process, by scenario."""
