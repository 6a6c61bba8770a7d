"""Views: topics as tables, a copy of each in every web process."""
