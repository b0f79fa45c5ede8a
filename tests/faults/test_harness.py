"""Twenty runs through a site that is being damaged, on every transport. `make faults` runs more."""

import subprocess
import sys

import pytest

from tests.faults.__main__ import programs_lacking
from tests.faults.processes import ROOT
from tests.requirements import require_none

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults")]


@pytest.mark.parametrize("transport", ["embedded", "redis", "rabbitmq"])
def test_no_run_is_lost_doubled_stuck_or_wrongly_failed(transport: str):
    require_none(["Linux's /proc"] * (sys.platform != "linux") + programs_lacking(transport))
    command = [sys.executable, "-m", "tests.faults", "--runs", "20", "--transport", transport, "--no-twin"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
