"""The task `survive-a-death`: sessions are pinned by hash until a replica saturates, and then another one dies.

What dies with a replica is the KV in its HBM and in its host memory; what lies in the shared pool is still there. The
memory that is offered can be spent on either tier, and one of them lies behind a link so slow that what is found there
takes longer to load than to compute again. Which one it is is drawn first, so that no place is right everywhere.
Sessions that leave a full replica, which the course's lesson says, earn nothing by themselves: without memory the floor
breaks or users wait. Which policy goes with the memory hangs on where it lies, since host memory does not follow a
session that moves.
"""

from typing import Any

from simworkers.agents.measure import Service, meets_goal
from simworkers.agents.params import AgentParams
from simworkers.agents.tasks.anchors import find_anchors, mean_ttft_us, service_of
from simworkers.agents.tasks.candidates import INCIDENT, LOAD, Candidate, show, shown_load
from simworkers.agents.tasks.choices import one_of
from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.rng import Stream

TASK = "survive-a-death"
DRAWS = 200
PRACTICE_SEEDS = (1, 2)
LEAST_DISTANCE = 1.2  # between the anchors
EXPERT_REACHES = 0.65  # score
MISLED_REACHES = 0.5  # at most …
LEAST_GAP = 0.15  # … and so much less than the expert
WRONG_MEMORY_GAP = 0.22  # that every policy of TRIED with other memory earns less than the expert, at least
FLOOR_PERCENT = 80  # of the interactivity that the wanted memory gives in practice
RESERVE = 1.05  # interactivity in practice ÷ floor that the expert wants to see
# With a GPU of which two leave KV scarce.
MODELS = (("qwen3-32b", "h200"), ("llama-3.1-70b", "b200"), ("llama-3.1-70b", "h200"), ("qwen3-32b", "h100"))
SCARCEST = MODELS[2:]  # with which much is lost that a replica's own host memory brings back
NOTHING, HOSTS, POOL = "nothing", "hosts", "pool"
WANTED = (POOL,) * 3 + (HOSTS,) * 2  # where the memory is to lie, each of the five as likely
FAST, SLOW = (10.0, 25.0, 50.0), (0.2, 0.3, 0.5)  # GB/s of a GPU
SHOWN = (*LOAD, "policy", "host_gb_per_s", "pool_gb_per_s", "memory_offer_gb", *INCIDENT)  # and the floor
# Policies that the expert tries in practice runs, the first one to find the right memory.
TRIED: tuple[dict[str, Any], ...] = (
    {"policy": "sticky_spill"},
    {"policy": "sticky"},
    {"policy": "sticky_override"},
    {"policy": "prefix_else_balance", "balance_absolute": 2},
)
# Policies that must earn nothing without memory; today's is the first.
ALONE: tuple[dict[str, Any], ...] = (
    {},
    *TRIED,
    {"policy": "prefix_else_balance"},
    {"policy": "least_tokens"},
)


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves. Where the memory is to lie is drawn first, so that no place is right in most."""
    wanted = one_of(Stream(seed, TASK), WANTED)
    return draw_until_it_serves(seed, TASK, lambda stream: _draw(stream, wanted, progress), DRAWS)


def _draw(stream: Stream, wanted: str, progress: Progress) -> PreparedInstance | None:
    """What decides most is played first, since most draws are in vain."""
    progress(0, 1)
    params, seed = _draw_params(stream, wanted), stream.integer(SEEDS)
    anchors = find_anchors(params, seed, lambda: progress(0, 1))
    visible = show(params, SHOWN) | {"practice_seeds": list(PRACTICE_SEEDS)}
    candidate = Candidate(params, seed, anchors, visible)
    if not _is_worth_practice(candidate, wanted):
        return None
    visible["floor_tokens_per_s"] = floor = _floor(visible, wanted)
    if not _serves(candidate, wanted):
        return None
    params = params.model_copy(update={"floor_tokens_per_s": floor})
    return PreparedInstance(params=params.model_dump(), visible=visible, seed=seed)


def _is_worth_practice(candidate: Candidate, wanted: str) -> bool:
    """The anchors lie apart, and the wanted memory takes somebody nearer the bound than memory under a hash does."""

    def reached(choice: dict[str, Any]) -> float:
        return candidate.reached(mean_ttft_us(candidate.chosen(choice), candidate.seed))

    if candidate.anchors.low < LEAST_DISTANCE * candidate.anchors.high:
        return False
    misled, memory = reached(_misled(candidate.visible)), _memories(candidate.visible)[wanted]
    if misled > MISLED_REACHES:
        return False
    wanted_share = max(EXPERT_REACHES, misled + LEAST_GAP)
    return any(reached(memory | policy) >= wanted_share for policy in TRIED)


def _serves(candidate: Candidate, wanted: str) -> bool:
    """No policy earns anything by itself, and the expert earns more than the misled and whoever puts the memory
    elsewhere."""

    def earns(choice: dict[str, Any]) -> float:
        """By the rubric."""
        service = service_of(candidate.chosen(choice), candidate.seed)
        if not meets_goal(service, len(service.ttft_us), candidate.visible["floor_tokens_per_s"]):
            return 0.0
        return max(candidate.reached(service.ttft_mean_us), 0.0)

    def best(memory: dict[str, Any]) -> float:
        return max(earns(memory | policy) for policy in TRIED)

    if any(earns(policy) for policy in ALONE):
        return False
    misled, expert = earns(_misled(candidate.visible)), earns(_best_in_practice(candidate.visible))
    if expert < max(EXPERT_REACHES, misled + LEAST_GAP):
        return False
    elsewhere = max(best(memory) for place, memory in _memories(candidate.visible).items() if place != wanted)
    return expert >= elsewhere + WRONG_MEMORY_GAP


def _draw_params(stream: Stream, wanted: str) -> AgentParams:
    """wanted: what lies behind a link that is fast enough."""
    model, gpu = one_of(stream, SCARCEST if wanted == HOSTS else MODELS)
    replicas = 4 + stream.integer(2)
    sessions = (5 if wanted == HOSTS else 6) * replicas + stream.integer(4)
    least_gb, step_gb = (150, 25) if wanted == HOSTS else (200, 50)  # that are offered, a replica
    offer_gb = replicas * (least_gb + step_gb * stream.integer(4))
    values: dict[str, Any] = {
        "model": model,
        "gpu": gpu,
        "tensor_parallel": 2,
        "replicas": replicas,
        "sessions": sessions,
        "sessions_at_once": sessions,
        "start_gap_ms": 250 + 250 * stream.integer(3),
        "turns_percent": 13 + stream.integer(6),
        "think_at_most_s": 5 + stream.integer(6),
        "policy": "consistent_hash",
        "host_gb_per_s": one_of(stream, FAST if wanted == HOSTS else SLOW),
        "pool_gb_per_s": one_of(stream, FAST if wanted == POOL else SLOW),
        "memory_offer_gb": offer_gb,
        "incident": "fail",
        "incident_at_s": 80 + 10 * stream.integer(5),
        "incident_for_s": 0,
        "scored_as": "survival",
        "compare_policies": False,
    }
    return AgentParams.model_validate(values)


def _memories(visible: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The offer taken for one tier, for the other, or left."""
    return {
        NOTHING: {},
        HOSTS: {"host_gb": visible["memory_offer_gb"] // visible["replicas"]},
        POOL: {"pool_gb": visible["memory_offer_gb"]},
    }


def _misled(visible: dict[str, Any]) -> dict[str, Any]:
    """The memory next to each replica, whatever its link; sessions where they were."""
    return _memories(visible)[HOSTS]


def _in_practice(visible: dict[str, Any], choice: dict[str, Any]) -> list[Service]:
    """Free runs of the same load."""
    scene = shown_load(visible, SHOWN, compare_policies=False, **choice)
    return [service_of(scene, seed) for seed in PRACTICE_SEEDS]


def _practice_wait_us(visible: dict[str, Any], choice: dict[str, Any]) -> float:
    return sum(service.ttft_mean_us for service in _in_practice(visible, choice))


def _practice_pace(visible: dict[str, Any], choice: dict[str, Any]) -> float:
    """Tokens a second that nine of ten requests reach, in the worse run."""
    return min(service.interactivity_p10 for service in _in_practice(visible, choice))


def _floor(visible: dict[str, Any], wanted: str) -> float:
    """Tokens a second: less than the policy with the least wait gives in practice, with the wanted memory."""
    choices = [_memories(visible)[wanted] | policy for policy in TRIED]
    best = min(choices, key=lambda choice: _practice_wait_us(visible, choice))
    return int(_practice_pace(visible, best) * FLOOR_PERCENT / 10) / 10


def _best_in_practice(visible: dict[str, Any]) -> dict[str, Any]:
    """The memory that does best under one policy, then the policy with the least wait that keeps the floor with it."""

    def wait_us(choice: dict[str, Any]) -> float:
        return _practice_wait_us(visible, choice)

    memory = min(_memories(visible).values(), key=lambda memory: wait_us(memory | TRIED[0]))
    choices = [memory | policy for policy in TRIED]
    floor = RESERVE * visible["floor_tokens_per_s"]
    safe = [choice for choice in choices if _practice_pace(visible, choice) >= floor]
    return min(safe or choices, key=wait_us)


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """What kinds of learner hand in, each from the visible part alone.

    naive: leaves everything as it is. misconception: gives each replica host memory and keeps the hash. lesson: lets
    sessions leave a replica that is full, without the memory that is offered. expert: plays the same load with other
    seeds, with the memory in the pool, beside the replicas or left, and under policies that keep sessions together.
    """
    visible = prepared.visible
    chosen = {
        "naive": {},
        "misconception": _misled(visible),
        "lesson": {"policy": "sticky_spill"},
        "expert": _best_in_practice(visible),
    }
    prediction = {"ttft_mean_us": 2e6, "moves": visible["sessions"]}
    return {who: Submission(params=params, prediction=prediction) for who, params in chosen.items()}
