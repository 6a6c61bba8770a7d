"""Notifications: rules, the channels they use, who is on call, and each message with its tries."""
