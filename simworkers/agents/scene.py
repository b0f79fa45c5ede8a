"""From the lab's parameters to a workload and a cluster."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from simworkers import inputs
from simworkers.agents.params import AgentParams
from simworkers.agents.recorded import counts_of, fault_of
from simworkers.agents.room import kv_room_bytes
from simworkers.agents.serving.cluster import Incident, Setup, Tiers
from simworkers.agents.serving.cost import StepCost
from simworkers.agents.serving.policies import Limits, Weights
from simworkers.agents.serving.profiles import MODELS
from simworkers.agents.serving.replica import Schedule
from simworkers.agents.serving.workload import Workload, build_workload, each_row_a_session
from simworkers.agents.session_params import SYNTHETIC
from simworkers.agents.traffic.flags import Flags
from simworkers.agents.traffic.generator import GeneratorSpec, generate
from simworkers.agents.traffic.traces import BadTrace, Trace, read_trace
from simworkers.hardware import GB, GPUS
from simworkers.jobs import InvalidParameter
from simworkers.trace_summary import size_of


@dataclass(frozen=True)
class Scene:
    """What a run plays. on_turn(finished turns): called in the middle of every play, so that somebody hears of it."""

    params: AgentParams
    trace: Trace
    workload: Workload
    setup: Setup
    gpus: int
    on_turn: Callable[[int], None] | None = field(default=None, compare=False)


def build_scene(params: AgentParams, seed: int) -> Scene:
    """InvalidParameter, naming the field, for what only shows now: a trace that cannot be served, a model that does not
    fit its GPUs."""
    trace = sessions_of(params, seed)
    flags = Flags(
        params.full_hit_recompute, params.cache_outputs, params.partial_blocks, params.clip_oversize
    )
    try:
        workload = build_workload(trace, flags, params.think_percent, params.think_at_most_s * 1_000_000)
    except ValueError as error:
        raise InvalidParameter(str(error)) from None
    if params.trace != SYNTHETIC:
        _refuse_unplayable(params, trace, sum(len(turn.chain.runs) for turn in workload.turns))
    return Scene(params, trace, workload, build_setup(params, workload.block_size, seed), _gpus(params))


def sessions_of(params: AgentParams, seed: int) -> Trace:
    """Drawn, or the first of the recorded ones."""
    if params.trace == SYNTHETIC:
        spec = GeneratorSpec(
            num_sessions=params.sessions,
            turns_percent=params.turns_percent,
            context_scale_percent=params.context_percent,
            shared_prefix_tokens=params.shared_prefix_tokens,
        )
        return generate(spec, seed)
    with inputs.open_input(params.trace) as file:
        try:
            trace = read_trace(file)
        except BadTrace as error:
            raise InvalidParameter(f"trace: {error}") from None
    if trace.has_sessions:
        trace = replace(trace, sessions=trace.sessions[: params.sessions])
    else:
        trace = each_row_a_session(trace)
    _refuse_unplayable(params, trace)
    return trace


def _refuse_unplayable(params: AgentParams, trace: Trace, runs: int = 0) -> None:
    """InvalidParameter for what only the trace itself tells: its summary knows neither its runs of blocks nor what
    fewer sessions than it has would take."""
    counts = replace(counts_of([size_of(session) for session in trace.sessions]), runs=runs)
    if not trace.has_sessions:
        counts = replace(counts, has_sessions=False, open_at_once=(), doublings=None)
    if fault := fault_of(params, counts):
        raise InvalidParameter(": ".join(fault))


def build_setup(params: AgentParams, block_size: int, seed: int) -> Setup:
    """The cluster, for KV blocks of so many tokens. InvalidParameter where its GPUs have no room for one."""
    model, gpu = MODELS[params.model], GPUS[params.gpu]
    if params.link == "network":
        gpu = replace(gpu, nvlink_bytes_per_s=gpu.network_bytes_per_s)
    links = params.tensor_parallel * params.pipeline_parallel // model.kv_copies(params.tensor_parallel)
    block_bytes = block_size * model.kv_bytes_per_token
    try:
        left = kv_room_bytes(params.model, params.gpu, params.tensor_parallel, params.pipeline_parallel)
    except ValueError as error:
        raise InvalidParameter(f"pipeline_parallel: {error}") from None
    if left < block_bytes:
        raise InvalidParameter(f"trace: the GPUs have no room for one block of {block_size} tokens")
    cost = StepCost(
        model,
        gpu,
        params.tensor_parallel,
        params.pipeline_parallel,
        token_budget=params.token_budget,
        step_overhead_us=params.step_overhead_us,
        collective_us=params.collective_us,
    )
    return Setup(
        replicas=params.replicas,
        kv_blocks=params.kv_blocks or left // block_bytes,
        cost=cost,
        policy=params.policy,
        limits=_limits(params),
        schedule=Schedule(params.max_requests, params.prefill_cap_tokens),
        tiers=Tiers(
            params.host_gb * GB // block_bytes,
            params.host_gb_per_s * GB * links,
            params.pool_gb * GB // block_bytes,
            params.pool_gb_per_s * GB * links,
        ),
        sessions_at_once=params.sessions_at_once,
        start_gap_us=params.start_gap_ms * 1000,
        incidents=_incidents(params),
        horizon_us=params.horizon_s * 1_000_000,
        seed=seed,
    )


def _limits(params: AgentParams) -> Limits:
    unit = params.loads_percent / 100
    return Limits(
        balance_absolute=params.balance_absolute,
        balance_percent=params.balance_percent,
        least_cached_percent=params.least_cached_percent,
        saturated_queue=params.saturated_queue,
        saturated_kv_percent=params.saturated_kv_percent,
        override_percent=params.override_percent,
        weights=Weights(
            cached=params.weight_cached,
            same_replica=params.weight_same_replica,
            queued=unit * params.weight_queued,
            pending_tokens=unit * params.weight_pending_tokens,
            kv_held=unit * params.weight_kv_held,
        ),
    )


def _incidents(params: AgentParams) -> tuple[Incident, ...]:
    if params.incident == "none":
        return ()
    at_us = params.incident_at_s * 1_000_000
    found = [Incident(at_us, 0, params.incident)]
    if params.incident_for_s:
        found.append(Incident(at_us + params.incident_for_s * 1_000_000, 0, "return"))
    return tuple(found)


def _gpus(params: AgentParams) -> int:
    return params.replicas * params.tensor_parallel * params.pipeline_parallel
