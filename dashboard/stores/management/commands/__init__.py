"""The commands of the stores."""
