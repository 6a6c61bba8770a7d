"""What a filter asks for: its language, what it finds, and filters that are kept."""
