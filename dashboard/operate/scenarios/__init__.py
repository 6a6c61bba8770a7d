"""Scenario pages: what is configured, in force and proposed."""
