"""Users, sessions, API tokens, second factors, and the login guard."""
