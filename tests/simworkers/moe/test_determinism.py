"""Counts are the same for every thread count and instruction set, at the largest offered size."""

import json
import os
import subprocess
import sys

import pytest

LARGEST = {"num_experts": 256, "top_k": 8, "num_gpus": 32, "num_nodes": 4, "num_groups": 8}
SHORT = {"num_layers": 2, "tokens_per_step": 2048, "warmup_steps": 1, "num_steps": 2}
BALANCER = {"eplb": True, "redundant_slots_per_gpu": 1}
COUNTS = ("expert_load", "gpu_load", "gpu_load_before", "placement", "moved_slots", "straggler_gpu_before")

PROGRAM = f"""
import json, sys
from simworkers.moe.params import MoeParams
from simworkers.moe.simulate import simulate
params = MoeParams.model_validate({LARGEST | SHORT | BALANCER!r})
report = simulate(params, 11, lambda done, total: None, threads=int(sys.argv[1]))
print(json.dumps([report.metrics, report.provenance, {{n: i.state for n, i in report.invariants.items()}}]))
"""


def run_apart(threads, **environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(threads)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def one_thread():
    return run_apart(1)


@pytest.mark.parametrize(
    ("threads", "environment"),
    [
        (2, {}),
        (1, {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}),
        (2, {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}),
    ],
)
def test_counts_are_equal_for_threads_and_older_instruction_sets(one_thread, threads, environment):
    metrics, provenance, states = run_apart(threads, **environment)
    assert provenance["threads"] == threads
    if environment:
        assert provenance["cpu_capability"] == "DEFAULT"
    assert set(states.values()) == {"held"}
    for name in COUNTS:
        assert metrics[name] == one_thread[0][name], name


def test_a_second_process_gives_the_same_metrics_bit_for_bit(one_thread):
    assert run_apart(1)[0] == one_thread[0]
