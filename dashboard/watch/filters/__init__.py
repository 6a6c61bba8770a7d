"""Filters as database queries, their completion, and saved filters."""
