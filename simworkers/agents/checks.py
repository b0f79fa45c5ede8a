"""What must hold in every run. `broken` is a fault of ours; `broken_by_setting` is the lesson of a setting."""

from dataclasses import replace

from simworkers.agents.compare import Searches
from simworkers.agents.measure import Tokens, admitted
from simworkers.agents.room import kv_room_bytes
from simworkers.agents.scene import Scene
from simworkers.agents.serving.cluster import Outcome, simulate_cluster
from simworkers.agents.serving.cost import FS_PER_US
from simworkers.agents.serving.workload import Workload
from simworkers.agents.traffic.replay import prepare, replay
from simworkers.hardware import GB
from simworkers.jobs import Invariant

HELD = Invariant(state="held")
ENDLESS_US = 10**18  # a replay has no horizon


def check(scene: Scene, outcome: Outcome, recorded: Workload) -> dict[str, Invariant]:
    """recorded: the workload's turns in the order in which they were recorded. What cannot be broken is not told."""
    found = {
        "lone_replica_hits_what_a_replay_hits": _lone_replica(scene, recorded),
        "no_hit_without_an_earlier_request": _hits_have_a_source(scene, outcome),
        "kv_stays_within_its_room": _room(scene, outcome),
        "every_request_once": _once(scene, outcome),
        "everything_is_served": _served(outcome, len(scene.workload.turns)),
        "kv_fits_in_hbm": _kv_fits(scene),
    }
    tiers = scene.setup.tiers
    if tiers.host_blocks or tiers.pool_blocks:
        found["write_back_keeps_up"] = _links_keep_up(outcome)
    return found


def check_searches(searches: Searches, sessions: int) -> dict[str, Invariant]:
    """What ended a search for the largest load: the floor, or that there were no more sessions."""
    free = [name for name, one in vars(searches).items() if one and one.load == sessions]
    if not free:
        return {"the_floor_ends_the_search": HELD}
    told = {"own": "as set", "round_robin": "under round robin", "bound": "with endless KV"}
    named = " and ".join(told[name] for name in free)
    event = (
        f"all {sessions} sessions at once keep the floor {named}: more might, so this load is a lower bound"
    )
    return {"the_floor_ends_the_search": Invariant(state="broken_by_setting", first_event=event)}


def _lone_replica(scene: Scene, recorded: Workload) -> Invariant:
    """One replica, one request at a time, only blocks with ids taking room: the same hits as a replay of the trace."""
    setup = replace(
        scene.setup,
        replicas=1,
        sessions_at_once=1,
        incidents=(),
        horizon_us=ENDLESS_US,
        policy="round_robin",
        schedule=replace(scene.setup.schedule, decode_takes_room=False),
        tiers=replace(scene.setup.tiers, host_blocks=0, pool_blocks=0),
    )
    outcome = simulate_cluster(recorded, setup, scene.on_turn)
    found = {one.turn.number: one.found.hbm for one in admitted(outcome) if one.found is not None}
    expected = replay(prepare(scene.trace, recorded.flags, setup.kv_blocks), setup.kv_blocks).per_request
    for number, hits in enumerate(expected):
        if found.get(number, 0) != hits:
            return Invariant(
                state="broken",
                first_event=f"request {number}: {found.get(number, 0)} blocks, by replay {hits}",
            )
    return HELD


def _hits_have_a_source(scene: Scene, outcome: Outcome) -> Invariant:
    """Every run that was hit stands in a request that was admitted before, somewhere."""
    seen: set[int] = set()
    lengths = scene.workload.run_lengths
    for request in sorted(admitted(outcome), key=lambda one: (one.admitted_at or 0, one.turn.number)):
        assert request.found is not None
        left = request.found.blocks
        for run in request.turn.chain.runs:
            if left <= 0 or request.turn.chain.places is not None:
                break
            if run not in seen:
                return Invariant(
                    state="broken",
                    first_event=f"turn {request.turn.number} hits run {run}, which nobody computed",
                )
            left -= lengths[run]
        seen.update(request.turn.chain.runs, request.turn.kept)
    return HELD


def _room(scene: Scene, outcome: Outcome) -> Invariant:
    for replica in outcome.replicas:
        try:
            replica.memory.check_integrity()
        except AssertionError as error:
            return Invariant(state="broken", first_event=f"replica {replica.index}: {error}")
        if replica.peak_held_blocks > scene.setup.kv_blocks:
            return Invariant(
                state="broken", first_event=f"replica {replica.index} held {replica.peak_held_blocks} blocks"
            )
    return HELD


def _once(scene: Scene, outcome: Outcome) -> Invariant:
    """Every turn came to one end, and its tokens add up."""
    numbers = [request.turn.number for request in outcome.requests] + outcome.refused
    if len(numbers) != len(set(numbers)):
        return Invariant(state="broken", first_event="a turn came to two ends")
    for request in admitted(outcome):
        tokens = Tokens.of(request, scene.workload.block_size)
        if min(tokens.hbm, tokens.host, tokens.pool, tokens.new) < 0:
            return Invariant(state="broken", first_event=f"turn {request.turn.number}: {tokens}")
    return HELD


def _served(outcome: Outcome, turns: int) -> Invariant:
    if outcome.refused:
        return Invariant(
            state="broken_by_setting",
            first_event=f"turn {outcome.refused[0]} is larger than a replica's whole cache "
            f"({len(outcome.refused)} of {turns} turns)",
        )
    open_ones = [request for request in outcome.requests if request.finished_at is None]
    missing = turns - len(outcome.requests) + len(open_ones)
    if missing:
        first = f"turn {open_ones[0].turn.number}" if open_ones else "a turn"
        return Invariant(
            state="broken_by_setting",
            first_event=f"{first} had not ended at the horizon ({missing} of {turns})",
        )
    return HELD


def _links_keep_up(outcome: Outcome) -> Invariant:
    for replica in outcome.replicas:
        for name, share in write_shares(outcome, replica.index).items():
            if share > 1:
                return Invariant(
                    state="broken_by_setting",
                    first_event=f"replica {replica.index}: writes to the {name} would need {share:.2f} × the time",
                )
    return HELD


def _kv_fits(scene: Scene) -> Invariant:
    """More than there is may be played, as a question of what it would bring."""
    params, setup = scene.params, scene.setup
    room = kv_room_bytes(params.model, params.gpu, params.tensor_parallel, params.pipeline_parallel)
    asked = setup.kv_blocks * scene.workload.block_size * setup.cost.model.kv_bytes_per_token
    if asked > room:
        return Invariant(
            state="broken_by_setting",
            first_event=f"KV of {asked / GB:,.0f} GB is more than a replica's GPUs hold beside the weights, "
            f"{room / GB:,.0f} GB",
        )
    return HELD


def write_shares(outcome: Outcome, index: int) -> dict[str, float]:
    """Time that a replica's writes would keep its links busy ÷ the whole time."""
    memory = outcome.replicas[index].memory
    links = {"host": memory.host.link if memory.host else None, "pool": memory.pool_link}
    whole_fs = max(outcome.end_us, 1) * FS_PER_US
    return {name: link.write_fs / whole_fs if link else 0.0 for name, link in links.items()}
