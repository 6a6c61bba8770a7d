"""Incidents, and maintenance windows."""
