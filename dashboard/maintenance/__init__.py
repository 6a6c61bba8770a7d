"""Maintenance windows: planned work on assets, which boards show and availability may leave out."""
