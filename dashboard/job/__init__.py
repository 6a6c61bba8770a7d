"""What the job tells of itself."""
