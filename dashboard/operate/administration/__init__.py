"""Users, the audit's page, and how long everything is kept."""
