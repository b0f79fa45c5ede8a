"""One configuration played twice on the same GPUs: each layer divided among them, or layers in stages.

A pipeline hands hidden states on once a stage, where tensor parallelism sums them up twice a layer; but each of its
micro-batches reads a stage's weights again, and stages idle where a step has too little for all of them. Which weighs
more is an outcome of prompts, answers, links and load.
"""

from dataclasses import dataclass, replace

from simworkers.agents.measure import measure_service
from simworkers.agents.params import AgentParams
from simworkers.agents.probe_params import PipelineProbe
from simworkers.agents.scene import build_setup
from simworkers.agents.serving.cluster import simulate_cluster
from simworkers.agents.serving.workload import Workload, build_workload
from simworkers.agents.traffic.flags import Flags
from simworkers.agents.traffic.generator import GeneratorSpec, generate
from simworkers.agents.traffic.traces import Session, Trace

SESSIONS, TURNS_PERCENT = 6, 10  # of a probe


@dataclass(frozen=True)
class Probed:
    """pipeline ÷ tensor, output tokens per GPU-second; and the smaller share of requests that completed."""

    ratio: float
    completed_share: float


def play_probe(params: AgentParams, probe: PipelineProbe, seed: int) -> Probed:
    """On one replica of tensor_parallel × pipeline_parallel GPUs. InvalidParameter where they do not hold the model."""
    gpus = params.tensor_parallel * params.pipeline_parallel
    workload = probe_workload(probe, seed)
    rates, completed = [], []
    for tensor, pipeline in ((gpus, 1), (1, gpus)):
        changes = {
            "tensor_parallel": tensor,
            "pipeline_parallel": pipeline,
            "link": probe.link,
            "sessions_at_once": probe.sessions_at_once,
            "token_budget": probe.token_budget,
            "replicas": 1,
            "start_gap_ms": 0,
            "host_gb": 0,
            "pool_gb": 0,
            "kv_blocks": 0,
            "incident": "none",
        }
        setup = build_setup(params.model_copy(update=changes), workload.block_size, seed)
        outcome = simulate_cluster(workload, setup)
        service = measure_service(workload, outcome, gpus, setup.horizon_us)
        rates.append(service.tokens_per_gpu_s)
        completed.append(service.completed / len(workload.turns))
    return Probed(rates[1] / rates[0] if rates[0] else 0.0, min(completed))


def probe_workload(probe: PipelineProbe, seed: int) -> Workload:
    """Drawn sessions, without think times."""
    trace = generate(
        GeneratorSpec(
            num_sessions=SESSIONS, turns_percent=TURNS_PERCENT, context_scale_percent=probe.context_percent
        ),
        seed,
    )
    sessions = [_with_outputs(session, probe.output_percent) for session in trace.sessions]
    if probe.prompts == "fresh":
        sessions = _one_by_one(sessions)
    return build_workload(Trace(sessions), Flags(), think_percent=0, think_at_most_us=0)


def _with_outputs(session: Session, percent: int) -> Session:
    requests = tuple(
        replace(request, output_tokens=max(request.output_tokens * percent // 100, 1))
        for request in session.requests
    )
    return replace(session, requests=requests)


def _one_by_one(sessions: list[Session]) -> list[Session]:
    """Each request a session of its own, whose blocks nobody else has."""
    alone = [
        (session, replace(request, agent=None, parent=None, place=0))
        for session in sessions
        for request in session.requests
    ]
    return [
        replace(session, number=number, space=number, requests=(request,))
        for number, (session, request) in enumerate(alone)
    ]
