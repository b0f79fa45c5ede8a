"""The fault harness: N runs through a whole site while it is being damaged. `python -m tests.faults --help`."""
