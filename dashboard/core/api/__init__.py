"""What the operations of the API share."""
