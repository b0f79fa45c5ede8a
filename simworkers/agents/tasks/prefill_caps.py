"""The same sessions under one prefill cap after another: what protects those who decode, and what it costs the rest."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from simworkers.agents.measure import Service, measure_service
from simworkers.agents.scene import Scene
from simworkers.agents.serving.cluster import simulate_cluster

CAPS = (64, 128, 256, 512, 1024, 4096, 0)  # tokens, the most careful first; 0: none


def serve_by_cap(scene: Scene, step: Callable[[], None], caps: Iterable[int] = CAPS) -> dict[int, Service]:
    """Cap → what users get. step: called after each simulation."""
    found = {}
    for cap in caps:
        setup = replace(scene.setup, schedule=replace(scene.setup.schedule, prefill_cap_tokens=cap))
        outcome = simulate_cluster(scene.workload, setup, scene.on_turn)
        found[cap] = measure_service(scene.workload, outcome, scene.gpus, setup.horizon_us)
        step()
    return found


def keeping(by_cap: Mapping[int, Service], floor: float, requests: int) -> list[int]:
    """Caps under which the floor is kept and every request completed."""
    return [
        cap
        for cap, service in by_cap.items()
        if service.interactivity_p10 >= floor and service.completed == requests
    ]
