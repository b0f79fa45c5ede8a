"""Twenty runs through a site that is being damaged, on every transport. `make faults` runs more."""

import subprocess
import sys

import pytest

from tests.faults.__main__ import require_programs
from tests.faults.processes import ROOT
from tests.faults.servers import Lacking
from tests.requirements import require

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("faults")]


@pytest.mark.parametrize("transport", ["embedded", "redis", "rabbitmq"])
def test_no_run_is_lost_doubled_stuck_or_wrongly_failed(transport: str):
    require(sys.platform == "linux", "Linux's /proc")
    try:
        require_programs(transport)
    except Lacking as what:
        require(False, str(what))
    command = [sys.executable, "-m", "tests.faults", "--runs", "20", "--transport", transport, "--no-twin"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
