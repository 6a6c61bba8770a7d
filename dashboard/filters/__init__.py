"""Filters as queries of the database, their completion, and filters that are saved."""
