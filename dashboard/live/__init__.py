"""What a web process knows beyond the database, and its sockets."""
