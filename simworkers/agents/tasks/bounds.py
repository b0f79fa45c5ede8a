"""What tasks judge a run against, computed on the same sessions and only where a parameter asks for it.

None of it depends on what a learner may set there: that is put back to its default, or to what is compared.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from simworkers.agents.scene import Scene, build_setup
from simworkers.agents.tasks.open_parameters import CAPS as SET_FOR_CAPS
from simworkers.agents.tasks.open_parameters import with_defaults
from simworkers.agents.tasks.pipeline_probe import play_probe
from simworkers.agents.tasks.prefill_caps import CAPS, keeping, serve_by_cap
from simworkers.agents.tasks.tier_budget import is_within, memory_usd, runner_up, waits_us

Step = Callable[[], None]


def bound_scalars(scene: Scene, step: Step) -> dict[str, Any]:
    """Metrics by name. step: called after every simulation."""
    return _of_tiers(scene, step) | _of_caps(scene, step) | _of_probes(scene)


def _of_tiers(scene: Scene, step: Step) -> dict[str, Any]:
    params = scene.params
    waits = waits_us(scene, step) if params.compare_tiers else {}
    return {
        "memory_usd": memory_usd(params),
        "within_memory_budget": int(is_within(params)),
        "tiers_runner_up_ttft_us": runner_up(waits) if waits else 0.0,
        "tiers_best_ttft_us": min(waits.values(), default=0.0),
    }


def _of_caps(scene: Scene, step: Step) -> dict[str, Any]:
    if not scene.params.compare_caps:
        return {"caps_careful_ttft_us": 0.0, "caps_best_ttft_us": 0.0}
    locked = with_defaults(scene.params, SET_FOR_CAPS)
    setup = build_setup(locked, scene.workload.block_size, scene.setup.seed)
    by_cap = serve_by_cap(replace(scene, params=locked, setup=setup), step)
    kept = keeping(by_cap, scene.params.floor_tokens_per_s, len(scene.workload.turns))
    return {
        "caps_careful_ttft_us": by_cap[CAPS[0]].ttft_mean_us,
        "caps_best_ttft_us": min((by_cap[cap].ttft_mean_us for cap in kept), default=0.0),
    }


def _of_probes(scene: Scene) -> dict[str, Any]:
    params = scene.params
    probes = {"pp_wins_ratio": params.pp_wins, "pp_loses_ratio": params.pp_loses}
    found = {name: play_probe(params, probe, scene.setup.seed) for name, probe in probes.items() if probe}
    ratios = {name: found[name].ratio if name in found else 1.0 for name in probes}
    completed = min((probed.completed_share for probed in found.values()), default=0.0)
    return ratios | {"probes_completed_share": completed}
