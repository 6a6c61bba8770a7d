"""Incidents: the unbroken times that assets spend outside their good states."""
