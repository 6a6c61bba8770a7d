"""What-if: a scenario's last hours under another rule."""
