"""Agents: statistics, faults and mutes."""
