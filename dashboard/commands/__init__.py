"""What operators and API clients do to assets: commands, sent as records and followed."""
