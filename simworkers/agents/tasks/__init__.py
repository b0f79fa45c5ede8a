"""Graded tasks: how instances are drawn, and what a submission is scored between."""
