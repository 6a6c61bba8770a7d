"""Acknowledgements, notes and labels of assets."""
