"""One run of the agent lab: parameters and a seed in, a report out. No clock decides anything that is reported."""

import time
from dataclasses import replace

from simworkers.agents import measure
from simworkers.agents.checks import check, check_searches
from simworkers.agents.compare import PLAYS_OF_A_SEARCH, compare_policies, count_plays, search_loads
from simworkers.agents.metrics import AgentMetrics
from simworkers.agents.params import AgentParams
from simworkers.agents.scalars import scalars
from simworkers.agents.scene import Scene, build_scene
from simworkers.agents.serving.cluster import simulate_cluster
from simworkers.agents.serving.workload import one_after_another
from simworkers.agents.tasks.anchors import COUNT, find_anchors
from simworkers.agents.tasks.bounds import bound_scalars
from simworkers.agents.work import CAPS, WAYS
from simworkers.catalog import engine_version
from simworkers.jobs import Progress, Report
from simworkers.provenance import provenance

LAB = "agent-routing"
PARTS = 100  # of progress that the run itself gets; every further simulation is one more
BEAT = 50  # turns; a slow one takes 15 ms


def simulate(
    params: AgentParams, seed: int, progress: Progress, *, device: str = "cpu", threads: int = 1
) -> Report:
    """Run it, on the CPU whatever `device` says: there is no tensor in it.

    InvalidParameter for a trace that cannot be served, or a model that its GPUs do not hold."""
    started_s = time.perf_counter()
    scene = build_scene(params, seed)
    teller = _Teller(scene, progress)
    scene = replace(scene, on_turn=teller.beat)
    teller.beat(0)
    outcome = simulate_cluster(scene.workload, scene.setup, teller.turn, is_sampled=True)
    teller.played()
    recorded = one_after_another(scene.workload, scene.trace)
    invariants = check(scene, outcome, recorded)
    teller.beat(0)
    searches = search_loads(scene, teller.step) if params.search_load else None
    if searches:
        invariants |= check_searches(searches, len(scene.workload.begins))
    anchors = find_anchors(params, seed, teller.step)
    policies, curves = compare_policies(scene, teller.step) if params.compare_policies else ([], [])
    metrics = AgentMetrics(
        **scalars(scene, outcome, measure.ceiling(recorded), searches),
        **{f"anchor_{name}": value for name, value in vars(anchors).items()},
        **bound_scalars(scene, teller.step),
        turns=measure.turn_rows(scene.workload, outcome),
        loads=measure.load_rows(scene.workload, outcome),
        residency=measure.residency_rows(scene, outcome),
        policies=policies,
        curves=curves,
        gpu_seconds=measure.gpu_seconds(scene, outcome),
    )
    teller.end()
    return Report(
        lab=LAB,
        engine_version=engine_version(LAB),
        seed=seed,
        params=params.model_dump(),
        metrics=metrics.model_dump(),
        invariants=invariants,
        provenance=provenance("cpu", threads, started_s),
    )


class _Teller:
    """Progress: the run itself, then every further simulation."""

    def __init__(self, scene: Scene, progress: Progress) -> None:
        self.turns, self.progress, self.done = len(scene.workload.turns), progress, 0
        searched = 3 * PLAYS_OF_A_SEARCH if scene.params.search_load else 0
        searched += COUNT[scene.params.scored_as]
        bounds = CAPS * scene.params.compare_caps + WAYS * scene.params.compare_tiers
        compared = count_plays(scene) if scene.params.compare_policies else 0
        self.total = PARTS + searched + bounds + compared

    def turn(self, finished: int) -> None:
        if finished % min(max(self.turns // PARTS, 1), BEAT) == 0:
            self.done = min(finished * PARTS // self.turns, PARTS)
            self.progress(self.done, self.total)

    def played(self) -> None:
        """The run itself is over, however many turns it came to."""
        self.done = PARTS
        self.progress(self.done, self.total)

    def beat(self, finished: int) -> None:
        """In the middle of a further simulation, or between two stages: the run is alive."""
        if finished % BEAT == 0:
            self.progress(self.done, self.total)

    def step(self) -> None:
        self.done = min(self.done + 1, self.total)
        self.progress(self.done, self.total)

    def end(self) -> None:
        self.progress(self.total, self.total)
