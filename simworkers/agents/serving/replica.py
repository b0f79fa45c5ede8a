"""One replica: a queue, a batch that decodes while prompts are read in chunks, and KV blocks that all of it needs.

Steps are simulated one by one in effect, and in stretches in fact: as long as the same batch goes on, many steps are
one event whose length has a closed form. Whatever could change the batch ends the stretch at the next step.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from simworkers.agents.serving.cost import Batch, BusyTime, StepCost, StepTime
from simworkers.agents.serving.kv_memory import KvMemory
from simworkers.agents.serving.requests import InFlight
from simworkers.agents.serving.workload import Turn, Workload

NO_STEP = StepTime(0, 0, 0, 0)
ANY = 2**62


@dataclass(frozen=True)
class Schedule:
    """How a replica fills its steps. Tokens of a step are bounded by the cost model's token budget."""

    max_requests: int = 64  # that hold KV at once
    prefill_cap_tokens: int = 0  # of a step in which requests decode; 0: the whole budget
    decode_takes_room: bool = True  # off: only blocks with ids take room, as in a replay of a trace
    longest_stretch: int = 2**40  # steps; 1 simulates every step alone


class Replica:
    """`next_at` is when it has to be called again; `version` changes with it."""

    def __init__(
        self,
        index: int,
        workload: Workload,
        cost: StepCost,
        schedule: Schedule,
        memory: KvMemory,
    ) -> None:
        self.index, self.cost, self.schedule = index, cost, schedule
        self.memory, self.cache = memory, memory.cache
        self.block_size, self.flags = workload.block_size, workload.flags
        self.queue: deque[InFlight] = deque()
        self.seats: list[InFlight] = []  # in order of admission
        self.is_up, self.is_draining = True, False
        self.sessions = 0
        self.busy = BusyTime()
        self.peak_held_blocks = 0
        self.next_at: int | None = None
        self.version = 0
        self._asked: Turn | None = None  # the request that a router asks about …
        self._asked_at = 0  # … and when
        self._seen_at = 0  # until when it has caught up with the steps of a stretch
        self._stop()

    # What a router sees (policies.ReplicaView). Steps that are over by then are caught up with once it looks.

    def ask(self, turn: Turn, at: int) -> None:
        """A router wants to know where this request would go best."""
        self._asked, self._asked_at = turn, at

    @property
    def host_blocks(self) -> int:
        return self.memory.host.lru.total_blocks if self.memory.host is not None else 0

    @property
    def queued(self) -> int:
        return len(self.queue)

    @property
    def running(self) -> int:
        return len(self.seats)

    @property
    def pending_tokens(self) -> int:
        self.advance(self._asked_at)
        return sum(self._unread()) + sum([request.estimated_tokens for request in self.queue])

    @property
    def kv_held_percent(self) -> int:
        self.advance(self._asked_at)
        return 100 * self.cache.used_blocks // self.cache.capacity_blocks

    def cached_tokens(self) -> int:
        assert self._asked is not None
        self.advance(self._asked_at)
        return self.memory.tokens_of(self._asked, self.memory.find_in_hbm(self._asked))

    # What happens to it.

    def submit(self, request: InFlight, at: int) -> bool:
        """Into the queue. False if it is larger than the cache could ever hold, and may not be clipped."""
        if self._most_blocks(request.turn) > self.cache.capacity_blocks:
            if not self.flags.clip_oversize:
                return False
            request.is_clipped = True
        request.replica = self.index
        self.ask(request.turn, at)
        request.estimated_tokens = request.target - self.cached_tokens()
        self.queue.append(request)
        if self._steps:
            self._stop_after(self._done + 1)
        else:
            self._begin(at)
        return True

    def advance(self, at: int) -> None:
        """Catch up with all steps that are over by then. Those that end the stretch are left to `end_stretch`."""
        if at > self._seen_at and self._steps:
            self._seen_at = at
            self._apply(min(self._step.completed(at - self._begun_at), self._steps - 1))

    def end_stretch(self, at: int) -> list[InFlight]:
        """The stretch is over: requests that are finished leave; the next one begins."""
        self._apply(self._steps)
        finished = []
        for seat, _ in self._chunks:
            if not seat.is_reading and seat.first_token_at is None:
                seat.first_token_at = at
        for seat in self._decodes + [seat for seat, _ in self._chunks]:
            if seat.outputs >= seat.wanted:
                seat.finished_at = at
                self._finish(seat)
                finished.append(seat)
        if finished:
            self.seats = [seat for seat in self.seats if seat.finished_at is None]
        self._begin(at)
        return finished

    def fail(self, at: int) -> list[InFlight]:
        """It dies: its KV is lost, and so is what its requests had computed. They come back in order of the turns."""
        lost = sorted([*self.seats, *self.queue], key=lambda request: request.turn.number)
        self.memory.reset()
        self.queue.clear()
        self.seats.clear()
        self.is_up = False
        self._stop()
        for request in lost:
            request.outputs = 0
            request.start_over(at)
            request.retries += 1
            request.first_token_at = None
        return lost

    # Stretches.

    def _stop(self) -> None:
        self._decodes: list[InFlight] = []
        self._chunks: list[tuple[InFlight, int]] = []
        self._step, self._begun_at, self._steps, self._done = NO_STEP, 0, 0, 0
        self.next_at = None
        self.version += 1

    def _begin(self, at: int) -> None:
        """Admit, fill a step, and find out for how many steps nothing can change."""
        self._stop()
        if self.queue:
            self._admit(at)
        reading, loading_until = self._sort_seats(at)
        while not self._has_room_for_a_step():
            self._preempt(self._last_ready(at), at)
            reading, loading_until = self._sort_seats(at)
        if reading:
            self._fill(reading)
        if not self._decodes and not self._chunks:
            self.next_at = loading_until
            return
        self._begun_at = self._seen_at = at
        self._step = self.cost.step(self._batch())
        self._steps = self._most_steps()
        if loading_until is not None:
            self._steps = min(self._step.completed(loading_until - at - 1) + 1, self._steps)
        self.next_at = at + self._step.total(self._steps)

    def _sort_seats(self, at: int) -> tuple[list[InFlight], int | None]:
        """(those that read their prompt, when what others load is there); those that decode are kept."""
        self._decodes, reading, loading_until = [], [], None
        for seat in self.seats:
            if seat.ready_at > at:
                loading_until = seat.ready_at if loading_until is None else min(seat.ready_at, loading_until)
            elif seat.computed < seat.target:
                reading.append(seat)
            else:
                self._decodes.append(seat)
        return reading, loading_until

    def _fill(self, reading: list[InFlight]) -> None:
        room = self._prefill_room(len(self._decodes))
        for seat in reading:
            if room <= 0:
                break
            tokens = min(seat.remaining, room)
            self._chunks.append((seat, tokens))
            room -= tokens

    def _prefill_room(self, decodes: int) -> int:
        """Prompt tokens that a step beside so many decoding requests takes."""
        room, cap = self.cost.chunk_room(decodes), self.schedule.prefill_cap_tokens
        return min(room, cap) if decodes and cap else room

    def _batch(self) -> Batch:
        """Pairs of a chunk: each new token attends to all before it and to itself."""
        context_tokens = 0
        for seat in self._decodes:
            context_tokens += seat.turn.input_tokens + seat.outputs  # the last output gets its KV now
        tokens = pairs = growth = 0
        for seat, chunk in self._chunks:
            tokens += chunk
            pairs += chunk * seat.computed + chunk * (chunk + 1) // 2
            growth += chunk * chunk
        return Batch(len(self._decodes), context_tokens, tokens, pairs, growth)

    def _most_steps(self) -> int:
        """For how many steps the batch stays what it is: nobody is through, and there is room."""
        most = self.schedule.longest_stretch
        if self._chunks and (len(self._chunks) > 1 or self.cost.stages > 1):
            return 1
        for seat in self._decodes:
            left = seat.wanted - seat.outputs
            if left < most:
                most = left
        for seat, tokens in self._chunks:
            most = min(most, max(seat.remaining // tokens, 1))
        room = self.cache.room_blocks
        if len(self._decodes) * (most // self.block_size + 1) <= room:  # they cannot take more
            return most
        if self._growth(most) > room:
            most = self._first(lambda steps: self._growth(steps) > room, most) - 1
        return most

    def _first(self, holds: Callable[[int], bool], most: int) -> int:
        """The least number of steps, from 1 on, for which it holds, if it does for `most`; else `most`."""
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle + 1, high)
        return low

    def _stop_after(self, steps: int) -> None:
        """Whoever has come may change the batch: end the stretch at this step."""
        if steps < self._steps:
            self._steps = steps
            self.next_at = self._begun_at + self._step.total(steps)
            self.version += 1

    def _apply(self, steps: int) -> None:
        """Steps up to this one of the stretch are over."""
        new = steps - self._done
        if new <= 0:
            return
        self.busy.add(self._step, self._done, steps)
        self._done = steps
        grown = 0
        for seat in self._decodes:
            seat.outputs += new
            if seat.outputs > seat.covered_outputs:
                grown += self._cover(seat, seat.kv_tokens)
        if grown:
            self.cache.grow(grown)
            self.peak_held_blocks = max(self.peak_held_blocks, self.cache.used_blocks)
        for seat, tokens in self._chunks:
            seat.computed += new * tokens
            if not seat.is_reading:
                seat.outputs += 1
                if not seat.is_clipped:
                    self.cache.computed(seat.turn.chain.runs)

    # Room.

    def _most_blocks(self, turn: Turn) -> int:
        """That a request holds at its end, alone."""
        if not self.schedule.decode_takes_room:
            return turn.distinct_blocks
        tokens = turn.input_tokens + max(turn.output_tokens, 1) - 1
        return max(-(-tokens // self.block_size), turn.blocks)

    def _nameless_at(self, seat: InFlight, tokens: int) -> int:
        """Blocks without a name that so many positions need."""
        if not self.schedule.decode_takes_room or seat.is_clipped:
            return 0
        return max(-(-tokens // self.block_size) - seat.turn.blocks, 0)

    def _cover(self, seat: InFlight, tokens: int) -> int:
        """Give a request room for so many positions; how many blocks more that takes."""
        if not self.schedule.decode_takes_room or seat.is_clipped:
            seat.covered_outputs = ANY
            return 0
        turn, blocks = seat.turn, max(-(-tokens // self.block_size), seat.turn.blocks)
        more = blocks - turn.blocks - seat.nameless_blocks
        seat.nameless_blocks += more
        seat.covered_outputs = blocks * self.block_size - turn.input_tokens + 1  # the last one has no KV yet
        return more

    def _growth(self, steps: int) -> int:
        """Blocks that so many steps more of the requests that decode take."""
        return sum(
            self._nameless_at(seat, seat.kv_tokens + steps) - seat.nameless_blocks for seat in self._decodes
        )

    def _has_room_for_a_step(self) -> bool:
        room = self.cache.room_blocks
        return len(self._decodes) <= room or self._growth(1) <= room  # a step takes a block of each at most

    def _unread(self) -> list[int]:
        """Prompt tokens that are left to each request with a seat that does not decode yet."""
        return [seat.remaining for seat in self.seats if seat.is_reading]

    def _admit(self, at: int) -> None:
        """From the head of the queue, while a step has tokens for it and there is room for its whole prompt."""
        unread = self._unread()
        backlog, tokens = sum(unread), self._prefill_room(len(self.seats) - len(unread))
        while self.queue and len(self.seats) < self.schedule.max_requests and backlog < tokens:
            head = self.queue[0]
            nameless = self._nameless_at(head, head.target)
            if not head.is_clipped and not self._has_room_for(head.turn, nameless):
                if head.blocked_since is None:
                    head.blocked_since = at
                return
            self.queue.popleft()
            self._seat(head, nameless, at)
            backlog += head.remaining

    def _has_room_for(self, turn: Turn, nameless: int) -> bool:
        room = self.cache.room_blocks - nameless
        return turn.distinct_blocks <= room or self.cache.missing_blocks(turn.chain.runs) <= room

    def _seat(self, request: InFlight, nameless: int, at: int) -> None:
        runs = request.turn.chain.runs
        found = self.memory.find(request.turn)
        request.leave_queue(at)
        if request.found is None:
            request.found, request.found_on, request.admitted_at = found, self.index, at
        request.ready_at = self.memory.load(found, runs, at)
        request.loading_fs += request.ready_at - at
        if not request.is_clipped:
            self.memory.hold(runs, nameless)
        self._cover(request, request.target)
        # Something is left to compute always, or there would be no output to sample.
        request.computed = min(self.memory.tokens_of(request.turn, found.blocks), request.target - 1)
        self.seats.append(request)
        self.peak_held_blocks = max(self.peak_held_blocks, self.cache.used_blocks)

    def _last_ready(self, at: int) -> InFlight:
        """Who gives up its blocks: of those that do not wait for a load, the one admitted last."""
        return next(seat for seat in reversed(self.seats) if seat.ready_at <= at)

    def _preempt(self, seat: InFlight, at: int) -> None:
        """Its blocks go, its outputs stay; it is the first to come back."""
        self.seats.remove(seat)
        if not seat.is_clipped:
            computed = seat.computed // self.block_size
            self.cache.release(seat.turn.chain.runs, computed, seat.nameless_blocks)
        seat.start_over(at)
        seat.preemptions += 1
        seat.blocked_since = at
        seat.estimated_tokens = seat.target
        self.queue.appendleft(seat)

    def _finish(self, seat: InFlight) -> None:
        if seat.is_clipped:
            self.memory.pass_through(seat.turn)
        else:
            self.memory.keep(seat.turn, seat.kv_tokens // self.block_size, seat.nameless_blocks)
