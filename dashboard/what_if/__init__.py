"""What another rule would have made of a scenario's last hours."""
