"""What an operator looks at all shift."""
