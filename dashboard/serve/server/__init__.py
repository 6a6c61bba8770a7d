"""The web server: daphne, its limits, its log."""
