"""Incidents and maintenance windows."""
