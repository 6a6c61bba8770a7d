"""Spark itself: its session, its JVM, and when they are started again."""
