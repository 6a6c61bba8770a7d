"""Notifications: rules, channels, rotas and messages."""
