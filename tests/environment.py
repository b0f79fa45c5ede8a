"""A pytest plugin, loaded before the settings are: every test session has its own data folder.

Run tests as `python -m pytest`, so that this module is found.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

for name in ("DATABASE_URL", "BROKER_URL", "SECRET_KEY", "DEBUG"):
    os.environ.pop(name, None)
# One thread for torch and NumPy, here and in what tests start: on tensors this small more of them wait for each other,
# and beside other busy processes they spin, at ten times the price and more.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"
# xdist's workers inherit the environment and then make their own folder too.
folder = tempfile.mkdtemp(prefix="staffloop-test-")
os.environ["STAFFLOOP_VAR"] = folder
Path(folder, "static").mkdir()  # where collectstatic would put its files; WhiteNoise warns without it
atexit.register(shutil.rmtree, folder, ignore_errors=True)

# STAFFLOOP_TEST_ON_POSTGRES=1 runs a suite on PostgreSQL; Django makes the database `test_…` there and drops it.
if os.environ.get("STAFFLOOP_TEST_ON_POSTGRES") == "1":
    server = os.environ.get("STAFFLOOP_TEST_DATABASE_URL", "postgres://postgres@127.0.0.1:5432/postgres")
    os.environ["DATABASE_URL"] = urlunsplit(urlsplit(server)._replace(path=f"/staffloop_{os.getpid()}"))
    os.environ["SECRET_KEY"] = "for tests alone, long enough to be accepted"
    # What the embedded default allows and a site of many machines does not.
    os.environ["STAFFLOOP_OPEN_REGISTRATION"] = "1"
    os.environ["SECURE_COOKIES"] = "0"
