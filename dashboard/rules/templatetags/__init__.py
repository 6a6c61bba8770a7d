"""Marks of the scenarios' pages."""
