"""The fold in a query: rules, epochs, processor, progress."""
