"""Users, sessions, API tokens, second factors, and the guard of the login."""
