"""Slack's way in: what people paste, drop and click there → the same analysis, answered in the thread."""
