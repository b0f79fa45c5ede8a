"""`make bench` and docs/benchmarks.md name the same measurements."""

import re

from tests.bench.__main__ import MEASUREMENTS, ROOT

STATED = re.compile(r"`python -m tests\.bench\.(bench_[^`]+)`")


def test_every_measurement_of_the_page_is_run_with_the_arguments_that_it_states():
    page = (ROOT / "docs/benchmarks.md").read_text()
    page = " ".join(page.split())  # a command may be broken over two lines
    assert set(STATED.findall(page)) == set(MEASUREMENTS)


def test_every_script_is_run():
    scripts = {path.stem for path in (ROOT / "tests/bench").glob("bench_*.py")}
    assert {measurement.split()[0] for measurement in MEASUREMENTS} == scripts
