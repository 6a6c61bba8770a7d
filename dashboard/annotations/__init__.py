"""Acknowledgements, notes and shifts, and what a row shows of them."""
