"""A new learner's first evening over the REST API, as a program: `make demo`.

site.py starts Staffloop, api.py is the learner's account, moe.py what the learner decides in the tasks of the MoE lab,
showing.py what is printed, __main__.py the evening.
"""
