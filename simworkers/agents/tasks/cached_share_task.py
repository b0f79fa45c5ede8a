"""The task `predict-cached-share`: how much of a turn's prompt is found, told from a log of what was sent before.

Nothing is set: the prediction itself is judged. Each instance follows one plan, a reason for which KV is there or is
not; those in which nearly everything is found are few. An instance serves if the rules that the lesson teaches, applied
to the log that is shown, give to the token what the simulator did.
"""

from collections.abc import Mapping
from typing import Any

from simworkers.agents.params import AgentParams
from simworkers.agents.scene import Scene, build_scene
from simworkers.agents.serving.cluster import Outcome, simulate_cluster
from simworkers.agents.serving.cost import FS_PER_S
from simworkers.agents.serving.requests import InFlight
from simworkers.agents.tasks.candidates import show
from simworkers.agents.tasks.kv_log import BLOCK_TOKENS, LOG_HELP, describe_request, repeated_blocks, replay
from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.rng import Stream

TASK = "predict-cached-share"
DRAWS = 500
PLANS = (
    "all_found",
    "host_holds_it",
    "evicted",
    "evicted",
    "evicted",
    "moved",
    "moved",
    "moved",
    "compacted",
    "compacted",
    "subagents",
    "subagents",
)
EARLIEST_TURN = 4
LEAST_FOUND = 0.15  # of the prompt, or who expects nothing would be nearly right
LEAST_FACTOR = (
    1.5  # new tokens ÷ what they would be if all that was sent before were found; else that would do
)
LONGEST_LOG = 90  # requests, so that the log can be read
SHOWN = ("policy", "replicas", "host_gb", "sessions", "sessions_at_once")
ORDER = (
    "Sessions begin one after the other. A replica frees a request's blocks when it ends; the blocks that nobody holds "
    "are overwritten from the one unused longest, and of one request from its tail."
)


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw a plan, then scenes until one has a turn for it."""
    plan = PLANS[Stream(seed, TASK, "plan").integer(len(PLANS))]
    return draw_until_it_serves(seed, TASK, lambda stream: _draw(stream, plan, progress), DRAWS)


def _draw(stream: Stream, plan: str, progress: Progress) -> PreparedInstance | None:
    progress(0, 1)
    params = _draw_params(stream, plan)
    seed = stream.integer(SEEDS)
    scene = build_scene(params, seed)
    outcome = simulate_cluster(scene.workload, scene.setup)
    request = _find(stream, plan, scene, outcome)
    if request is None:
        return None
    watched = {"watched_session": request.turn.session + 1, "watched_turn": request.turn.index + 1}
    params = params.model_copy(update=watched)
    return PreparedInstance(
        params=params.model_dump(), visible=describe(params, scene, outcome, request), seed=seed
    )


def _draw_params(stream: Stream, plan: str) -> AgentParams:
    """Every plan draws the same numbers. KV is a part of what all sessions would fill."""
    sessions, replicas = 3 + stream.integer(3), 1 + stream.integer(2)
    scarce = 2600 + 200 * stream.integer(14)
    values: dict[str, Any] = {
        "sessions": sessions,
        "sessions_at_once": sessions,
        "turns_percent": 25 + 5 * stream.integer(4),
        "start_gap_ms": 20_000 + 5_000 * stream.integer(5),
        "think_at_most_s": 60 + 30 * stream.integer(3),
        "model": "qwen3-30b-a3b",
        "tensor_parallel": 8,
        "kv_blocks": 60_000,
        "replicas": replicas,
        "policy": ("sticky", "sticky_spill", "consistent_hash")[stream.integer(3)],
        "compare_policies": False,
    }
    moving = {"policy": ("round_robin", "round_robin", "least_queue")[stream.integer(3)]}
    match plan:
        case "evicted" | "subagents":
            values["kv_blocks"] = scarce
        case "host_holds_it":
            values |= {"kv_blocks": scarce, "host_gb": 2000}
        case "moved":
            values |= moving | {"replicas": 2 + stream.integer(2)}
    return AgentParams.model_validate(values)


def _find(stream: Stream, plan: str, scene: Scene, outcome: Outcome) -> InFlight | None:
    """A turn of a session's own agent for which the plan's reason decides, and which the rules foresee."""
    if outcome.refused:
        return None
    main = {streams[0] for streams in scene.workload.begins}
    ways = {request.turn.number: request for request in outcome.requests}
    fitting = [
        request
        for number, request in ways.items()
        if request.turn.stream in main
        and request.turn.index + 1 >= EARLIEST_TURN
        and _fits(plan, scene, request, ways[number - 1])
    ]
    for place in stream.permutation(len(fitting)):
        request = fitting[int(place)]
        visible = describe(scene.params, scene, outcome, request)
        if len(visible["log"]) <= LONGEST_LOG and replay(visible).cached_tokens == _cached(request):
            return request
    return None


def _cached(request: InFlight) -> int:
    assert request.found is not None
    return min(request.found.blocks * BLOCK_TOKENS, request.turn.input_tokens)


def _fits(plan: str, scene: Scene, request: InFlight, last: InFlight) -> bool:
    """Whether the plan's reason is what decides how much is found. last: the same agent's request before."""
    turn, cached = request.turn, _cached(request)
    if cached < LEAST_FOUND * turn.input_tokens:
        return False
    answered = (last.turn.input_tokens + last.turn.output_tokens - 1) // BLOCK_TOKENS
    sent = min(answered, turn.hit_cap) * BLOCK_TOKENS
    is_compacted = repeated_blocks(scene.workload, turn.number) < last.turn.blocks
    is_short = turn.input_tokens - cached >= LEAST_FACTOR * (turn.input_tokens - sent)
    starts_others = last.turn.number in scene.workload.starts
    match plan:
        case "all_found":
            return cached == sent and not is_compacted
        case "host_holds_it":
            return (
                cached == sent and not is_compacted and request.found is not None and request.found.host > 0
            )
        case "compacted":
            return is_short and is_compacted
        case "moved":
            return is_short and not is_compacted and request.replica != last.replica
    return is_short and not is_compacted and starts_others == (plan == "subagents")


def describe(params: AgentParams, scene: Scene, outcome: Outcome, request: InFlight) -> dict[str, Any]:
    """The setting, all requests that were sent before the watched one, and the watched one without its replica."""
    before = sorted(
        (one for one in outcome.requests if one.sent_at < request.sent_at),
        key=lambda one: (one.sent_at, one.turn.number),
    )
    rows = [describe_request(scene.workload, one, request.sent_at) for one in before]
    watched = describe_request(scene.workload, request, request.sent_at)
    return {
        "block_size_tokens": scene.workload.block_size,
        "kv_blocks_of_a_replica": scene.setup.kv_blocks,
        **show(params, SHOWN),
        "order": ORDER,
        "log_help": LOG_HELP,
        "log": [list(rows[0]), *(list(row.values()) for row in rows)],
        "watched": {
            name: watched[name]
            for name in ("session", "agent", "turn", "input_tokens", "output_tokens", "repeats_tokens")
        }
        | {"sent_s": round(request.sent_at / FS_PER_S, 3)},
    }


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """Each from the visible part alone.

    naive: believes that nothing of a prompt is kept. misconception: believes that an agent finds what it has sent
    before, wherever it goes and whoever else is there. expert: replays the log, replica by replica.
    """
    visible = prepared.visible
    said = replay(visible)
    whole = visible["watched"]["input_tokens"]
    found = {"naive": 0, "misconception": said.last_sent_tokens, "expert": said.cached_tokens}
    return {
        who: Submission(params={}, prediction=_prediction(whole, cached)) for who, cached in found.items()
    }


def _prediction(whole: int, cached: int) -> Mapping[str, Any]:
    return {"cached_tokens": cached, "new_tokens": whole - cached}
