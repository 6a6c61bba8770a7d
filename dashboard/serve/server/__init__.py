"""The web server: daphne, its limits and its log."""
