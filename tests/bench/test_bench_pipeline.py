"""The measurement of the pipeline measures what it says."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.bench_pipeline import NAMES, ROOT, Sample, summary
from tests.bench.sites import percentile

LISTS = st.lists(st.floats(0, 1e6), min_size=1)


@given(LISTS, st.floats(0, 100))
def test_a_percentile_is_a_measured_value_with_its_share_at_or_below(values: list[float], percent: float):
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) * 100 >= percent * len(values)


@given(LISTS, st.floats(0, 100))
def test_no_smaller_value_would_do_as_the_percentile(values: list[float], percent: float):
    found = percentile(values, percent)
    below = [value for value in values if value < found]
    assert not below or len(below) * 100 < percent * len(values)


def test_a_percentile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="values"):
        percentile([], 50)


def test_ratios_compare_equal_ranks_with_the_no_op_and_with_what_a_run_cannot_do_without():
    samples: list[Sample] = [
        dict.fromkeys(NAMES, 1.0)
        | {"noop": 0.002 * n, "child": 0.003, "simulated": 0.005, "woken": 0.006 * n}
        for n in range(1, 101)
    ]
    shown = summary(samples)
    assert shown["woken_over_noop_p50"] == pytest.approx(3)
    assert shown["woken_over_noop_p99"] == pytest.approx(3)
    assert shown["graded_over_needed_p99"] == pytest.approx(1000 / (198 + 3 + 5))


@pytest.mark.slow
def test_each_run_is_computed_and_its_moments_follow_one_another():
    command = [sys.executable, "-m", "tests.bench.bench_pipeline", "--runs", "2", "--json"]
    command += ["--transports", "embedded"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["samples"]) == 2
    for one in found["samples"]:
        assert set(one) == set(NAMES)
        assert 0 < one["woken"] < one["running"] < one["graded"]
        assert 0 < one["simulated"] < one["computed"]
        assert min(one.values()) > 0
