"""Queryable stores of a scenario's assets by key: full copies, shares, a cache."""
