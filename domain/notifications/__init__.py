"""Notifications: when a rule tells of incidents, by events and a clock that is passed in."""
