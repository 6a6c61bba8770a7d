"""Notifications: when a rule reports incidents, given events and the time."""
