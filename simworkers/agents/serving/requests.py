"""A request on its way through a replica. Times in femtoseconds since the simulation began."""

from dataclasses import dataclass, field

from simworkers.agents.serving.run_cache import Found
from simworkers.agents.serving.workload import Turn


@dataclass(slots=True, eq=False)
class InFlight:
    """One turn, from its sending to its last token. What a preemption or a dead replica takes away is done again;
    `found` counts the first admission only."""

    turn: Turn
    sent_at: int
    # Tokens whose KV has to be there before the next output: the prompt, and outputs that were lost.
    target: int
    computed: int = 0
    outputs: int = 0
    nameless_blocks: int = 0
    covered_outputs: int = 0  # for which its blocks have room
    is_clipped: bool = False  # larger than the cache, which keeps its head at most
    ready_at: int = 0  # when what is loaded for it is there
    estimated_tokens: int = 0  # prompt tokens to compute, as seen when it was routed
    replica: int = -1
    found: Found | None = None
    found_on: int = (
        -1
    )  # the replica that `found` speaks of; a request that is sent again is served by another
    admitted_at: int | None = None  # the first time
    first_token_at: int | None = None
    finished_at: int | None = None
    queued_since: int | None = None  # in a queue, or while there is no replica; None: it has a seat
    blocked_since: int | None = None  # at the head of the queue, for lack of KV blocks
    queued_fs: int = 0  # waited, but not for KV blocks
    blocked_fs: int = 0
    loading_fs: int = 0  # waited for what was loaded from other tiers
    preemptions: int = 0
    retries: int = 0
    # Outputs after which it is over. A recorded request without output still ends with its prefill.
    wanted: int = field(init=False)

    def __post_init__(self) -> None:
        self.wanted = max(self.turn.output_tokens, 1)

    @property
    def is_reading(self) -> bool:
        """Its prompt, not decoding yet."""
        return self.computed < self.target

    @property
    def remaining(self) -> int:
        """Tokens still to be computed before it decodes."""
        return self.target - self.computed

    @property
    def kv_tokens(self) -> int:
        """Positions that have KV while it decodes: the last output has none yet."""
        return self.turn.input_tokens + self.outputs - 1

    def waits(self, at: int) -> tuple[int, int, int]:
        """Femtoseconds that it has waited by then, whenever that was: (queued, blocked, loading)."""
        loading_fs = self.loading_fs - max(self.ready_at - at, 0)
        if self.queued_since is None:
            return self.queued_fs, self.blocked_fs, loading_fs
        blocked_since = at if self.blocked_since is None else self.blocked_since
        queued_fs = self.queued_fs + blocked_since - self.queued_since
        return queued_fs, self.blocked_fs + at - blocked_since, loading_fs

    def leave_queue(self, at: int) -> None:
        self.queued_fs, self.blocked_fs, _ = self.waits(at)
        self.queued_since = self.blocked_since = None

    def start_over(self, at: int) -> None:
        """Everything that it had computed is lost to it but the text of its outputs; it waits for a seat again."""
        self.queued_fs, self.blocked_fs, self.loading_fs = self.waits(at)
        self.ready_at, self.queued_since, self.blocked_since = min(self.ready_at, at), at, None
        self.target = self.turn.input_tokens + self.outputs
        self.computed = 0
        self.nameless_blocks = 0
