"""Recorded and synthetic traffic, and what one cache makes of it."""
