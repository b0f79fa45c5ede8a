"""Runs of which figures are drawn, each once."""

from functools import cache
from typing import Any

import pytest

from simworkers.agents.job import AGENT_ROUTING
from simworkers.agents.params import AgentParams
from simworkers.agents.pictures.figures import draw
from simworkers.agents.simulate import simulate

# Little KV, and tiers behind it: every colour of the figures occurs.
SMALL = {
    "sessions": 4,
    "turns_percent": 15,
    "kv_blocks": 6000,
    "host_gb": 60,
    "pool_gb": 40,
    "replicas": 2,
    "policy": "round_robin",
}
DEGENERATE: dict[str, dict[str, Any]] = {
    "one session, one replica": {"sessions": 1, "replicas": 1, "compare_policies": False},
    "nobody is compared": {"compare_policies": False},
    "everything is refused": {"kv_blocks": 10},
    "the horizon cuts": {"horizon_s": 1},
    "a few seconds": {"horizon_s": 20},
    "one turn each": {"turns_percent": 1},
    "the only replica dies": {"replicas": 1, "incident": "fail", "incident_at_s": 5, "incident_for_s": 0},
    "sixteen replicas": {"replicas": 16, "incident": "drain", "incident_at_s": 10},
}
NAMES = [figure.name for figure in AGENT_ROUTING.figures]


@cache
def report_of(name=None):
    values = SMALL | (DEGENERATE[name] if name else {})
    return simulate(AgentParams.model_validate(values), 1, lambda done, total: None)


@pytest.fixture(scope="module")
def report():
    return report_of()


@cache
def drawn():
    return draw(report_of())


@pytest.fixture(scope="module")
def figures():
    return drawn()


def with_metrics(report, **changes):
    """The report with some metrics exchanged, for scenes that few runs reach."""
    return report.metrics | changes


def turn(number, replica, new, session=1):
    return {
        "session": session,
        "turn": number,
        "replica": replica,
        "hbm_tokens": 1000 - new,
        "host_tokens": 0,
        "pool_tokens": 0,
        "new_tokens": new,
        "output_tokens": 7,
        "ttft_us": 5000,
    }


def curve(policy, load, interactivity, rate, completed=1.0):
    return {
        "policy": policy,
        "sessions_at_once": load,
        "interactivity_p10": interactivity,
        "tokens_per_gpu_s": rate,
        "completed_share": completed,
    }


SEVEN = [
    "round_robin",
    "least_queue",
    "consistent_hash",
    "longest_prefix",
    "sticky",
    "sticky_spill",
    "weighted",
]
