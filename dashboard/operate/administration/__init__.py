"""Administration: users, the audit's page, and retention."""
