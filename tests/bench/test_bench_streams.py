"""Five hundred waiting learners on one web process."""

import json
import subprocess
import sys

import pytest

from tests.bench.bench_streams import ROOT


@pytest.mark.slow
def test_five_hundred_learners_wait_on_one_process_without_threads_or_connections_of_their_own() -> None:
    command = [sys.executable, "-m", "tests.bench.bench_streams", "--streams", "500", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["ended"] == 500
    assert found["waiting"]["threads"] < 20
    assert found["waiting"]["database_connections"] < 100
