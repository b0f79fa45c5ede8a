"""A pytest plugin, loaded before the settings are: every test session has its own data folder.

Run tests as `python -m pytest`, so that this module is found.
"""

import atexit
import os
import shutil
import tempfile

for name in ("DATABASE_URL", "BROKER_URL", "SECRET_KEY", "DEBUG"):
    os.environ.pop(name, None)
# xdist's workers inherit the environment and then make their own folder too.
os.environ["STAFFLOOP_VAR"] = tempfile.mkdtemp(prefix="staffloop-test-")
atexit.register(shutil.rmtree, os.environ["STAFFLOOP_VAR"], ignore_errors=True)
