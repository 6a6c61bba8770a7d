"""The handover between shifts."""
