"""Operators' additions to assets beyond commands: acknowledgements, notes, the handover."""
