"""Agent sessions: recorded traffic, and what a cache would have kept of it."""
