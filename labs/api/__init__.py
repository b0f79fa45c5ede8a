"""The REST API of the labs, under /api/v1/. One module a noun; disclosure.py decides what of a run a learner sees."""
