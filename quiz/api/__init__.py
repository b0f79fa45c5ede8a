"""The REST API of the course, under /api/v1/. One module a noun; disclosure.py decides what a learner sees."""
