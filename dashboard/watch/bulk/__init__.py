"""One command for many assets."""
