"""Which replica a request goes to. Each policy is a pure function of what a router can see.

To add one: write `(ask, replicas, limits) -> replica` and put it into POLICIES. `replicas` are those that take new
requests, at least one, in order of their index. Equal choices go to the lowest index, unless the policy says otherwise.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, Protocol


class Ask(NamedTuple):
    """What a router knows of a request. draw: a uniform 64-bit word of its own. last: the replica that the session's
    previous request went to, whether or not that one still takes requests."""

    number: int  # of all that were routed, from 0
    session: int
    input_tokens: int
    last: int | None
    draw: int


class ReplicaView(Protocol):
    """What a router sees of a replica, at the end of its last step."""

    index: int

    @property
    def queued(self) -> int: ...  # requests that wait for a seat or for room
    @property
    def running(self) -> int: ...  # requests that hold KV
    @property
    def pending_tokens(self) -> int: ...  # prompt tokens that wait to be computed
    @property
    def kv_held_percent(self) -> int: ...  # blocks that requests hold ÷ all
    @property
    def sessions(self) -> int: ...  # whose last request came here
    def cached_tokens(self) -> int: ...  # of this request's prompt, in HBM


@dataclass(frozen=True)
class Weights:
    """Of the score by which `weighted` ranks: shares in 0 … 1, and loads relative to their mean."""

    cached: float = 1.0
    same_replica: float = 0.0
    queued: float = 0.0
    pending_tokens: float = 0.0
    kv_held: float = 0.0


@dataclass(frozen=True)
class Limits:
    """Thresholds that policies read."""

    balance_absolute: int = 64  # requests by which loads may differ at most …
    balance_percent: int = 150  # … and in relation, before prefix_else_balance balances
    least_cached_percent: int = 50  # of a prompt, for its prefix to count
    saturated_queue: int = 4  # waiting requests
    saturated_kv_percent: int = 90
    override_percent: int = 200  # load above this of the least loaded replica's moves a sticky session
    weights: Weights = field(default_factory=Weights)


Replicas = Sequence[ReplicaView]
Policy = Callable[[Ask, Replicas, Limits], ReplicaView]


def load(replica: ReplicaView) -> int:
    """Requests here, whatever they do."""
    return replica.queued + replica.running


def is_saturated(replica: ReplicaView, limits: Limits) -> bool:
    """Requests wait, or KV is short: counts alone would call a replica with two huge contexts idle."""
    return replica.queued >= limits.saturated_queue or replica.kv_held_percent >= limits.saturated_kv_percent


def random(ask: Ask, replicas: Replicas, limits: Limits) -> ReplicaView:
    return replicas[ask.draw % len(replicas)]


def round_robin(ask: Ask, replicas: Replicas, limits: Limits) -> ReplicaView:
    return replicas[ask.number % len(replicas)]


def least_queue(ask: Ask, replicas: Replicas, limits: Limits) -> ReplicaView:
    """Fewest requests. Between turns a quiet cluster has none, and everyone lands on the first replica."""
    return min(replicas, key=load)


def least_tokens(ask: Ask, replicas: Replicas, limits: Limits) -> ReplicaView:
    """Fewest prompt tokens waiting to be computed."""
    return min(replicas, key=lambda replica: (replica.pending_tokens, load(replica)))


def most_free_kv(ask: Ask, replicas: Replicas, limits: Limits) -> ReplicaView:
    return min(replicas, key=lambda replica: (replica.kv_held_percent, load(replica)))


def longest_prefix(ask: Ask, replicas: Replicas, limits: Limits) -> ReplicaView:
    return max(replicas, key=lambda replica: (replica.cached_tokens(), -load(replica)))


def prefix_else_balance(ask: Ask, replicas: Replicas, limits: Limits) -> ReplicaView:
    """The longest prefix while loads are even; the least load once they differ by more than both thresholds, or where
    too little of the prompt is cached anywhere."""
    loads = [load(replica) for replica in replicas]
    most, least = max(loads), min(loads)
    if most - least > limits.balance_absolute and 100 * most > limits.balance_percent * least:
        return least_queue(ask, replicas, limits)
    found = longest_prefix(ask, replicas, limits)
    if 100 * found.cached_tokens() >= limits.least_cached_percent * ask.input_tokens:
        return found
    return fewest_sessions(replicas)


def consistent_hash(ask: Ask, replicas: Replicas, limits: Limits) -> ReplicaView:
    """By the session's place on a ring: a replica that leaves moves only its own sessions. Sees no load."""
    ring = _ring(tuple(replica.index for replica in replicas))
    at = bisect_left(ring, (_place(f"session {ask.session}"), 0)) % len(ring)
    return next(replica for replica in replicas if replica.index == ring[at][1])


def sticky(ask: Ask, replicas: Replicas, limits: Limits) -> ReplicaView:
    """Where the session's last request went; a new session where there are fewest."""
    return _same(ask, replicas) or fewest_sessions(replicas)


def sticky_least_queue(ask: Ask, replicas: Replicas, limits: Limits) -> ReplicaView:
    """Sticky, but a new session goes where fewest requests are at this moment."""
    return _same(ask, replicas) or least_queue(ask, replicas, limits)


def sticky_override(ask: Ask, replicas: Replicas, limits: Limits) -> ReplicaView:
    """Sticky unless that replica has more than so many times the load of the least loaded one."""
    same = _same(ask, replicas)
    least = least_queue(ask, replicas, limits)
    if same is None:
        return fewest_sessions(replicas)
    return least if 100 * load(same) > limits.override_percent * max(load(least), 1) else same


def sticky_spill(ask: Ask, replicas: Replicas, limits: Limits) -> ReplicaView:
    """Sticky until that replica saturates, by queue or by KV; then the least loaded one that is not saturated."""
    same = _same(ask, replicas)
    if same is not None and not is_saturated(same, limits):
        return same
    open_ones = [replica for replica in replicas if not is_saturated(replica, limits)]
    if not open_ones:
        return same or least_tokens(ask, replicas, limits)
    return min(open_ones, key=lambda replica: (load(replica), replica.kv_held_percent, replica.sessions))


def weighted(ask: Ask, replicas: Replicas, limits: Limits) -> ReplicaView:
    """The highest score of the learner's weights: good points less loads, each load relative to the mean."""
    weights = limits.weights
    queued = _relative([float(replica.queued) for replica in replicas])
    pending = _relative([float(replica.pending_tokens) for replica in replicas])

    def score(place: int) -> float:
        replica = replicas[place]
        good = weights.cached * replica.cached_tokens() / max(ask.input_tokens, 1)
        good += weights.same_replica * (replica.index == ask.last)
        bad = weights.queued * queued[place] + weights.pending_tokens * pending[place]
        return good - bad - weights.kv_held * replica.kv_held_percent / 100

    return replicas[max(range(len(replicas)), key=lambda place: (score(place), -replicas[place].sessions))]


def fewest_sessions(replicas: Replicas) -> ReplicaView:
    return min(replicas, key=lambda replica: (replica.sessions, load(replica)))


def _same(ask: Ask, replicas: Replicas) -> ReplicaView | None:
    return next((replica for replica in replicas if replica.index == ask.last), None)


def _relative(loads: Sequence[float]) -> list[float]:
    """Each ÷ the mean; zeros where there is none."""
    mean = sum(loads) / len(loads)
    return [one / mean if mean else 0.0 for one in loads]


POINTS_ON_THE_RING = 64  # of each replica


@cache
def _ring(indices: tuple[int, ...]) -> list[tuple[int, int]]:
    return sorted((_place(f"replica {i}, point {n}"), i) for i in indices for n in range(POINTS_ON_THE_RING))


def _place(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


POLICIES: dict[str, Policy] = {
    "random": random,
    "round_robin": round_robin,
    "least_queue": least_queue,
    "least_tokens": least_tokens,
    "most_free_kv": most_free_kv,
    "longest_prefix": longest_prefix,
    "prefix_else_balance": prefix_else_balance,
    "consistent_hash": consistent_hash,
    "sticky": sticky,
    "sticky_least_queue": sticky_least_queue,
    "sticky_override": sticky_override,
    "sticky_spill": sticky_spill,
    "weighted": weighted,
}
