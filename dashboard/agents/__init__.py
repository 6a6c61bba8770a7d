"""Agents: their reports, their figures, and the mutes that make their votes count nothing."""
