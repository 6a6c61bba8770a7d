"""Code shared by the operations of the API."""
