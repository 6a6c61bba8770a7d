"""What operators add to assets beyond commands: acknowledgements, notes, the handover."""
