"""The pages of scenarios: what is configured, in force, and proposed."""
