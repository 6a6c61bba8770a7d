"""A filter as a query; completion; saved filters."""
