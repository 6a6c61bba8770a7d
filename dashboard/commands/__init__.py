"""Commands of operators and API clients on assets, sent as records and followed."""
