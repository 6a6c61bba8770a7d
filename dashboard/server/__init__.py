"""The web process: request limits, and daphne with a tailer."""
