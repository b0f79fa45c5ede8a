"""A pytest plugin, loaded before the settings are: every test session has its own data folder.

Run tests as `python -m pytest`, so that this module is found.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

for name in ("DATABASE_URL", "BROKER_URL", "SECRET_KEY", "DEBUG"):
    os.environ.pop(name, None)
# xdist's workers inherit the environment and then make their own folder too.
folder = tempfile.mkdtemp(prefix="staffloop-test-")
os.environ["STAFFLOOP_VAR"] = folder
Path(folder, "static").mkdir()  # where collectstatic would put its files; WhiteNoise warns without it
atexit.register(shutil.rmtree, folder, ignore_errors=True)
