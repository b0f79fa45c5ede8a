"""Who computes what in the next step: continuous batching under a token budget, an encoder budget and a block pool.

The rules, in order. Decoding sequences go first, one token each, so that no prompt holds them up. Chunks of prompts
share what is left, oldest request first. A request that lacks blocks preempts the youngest one, which starts over
later and keeps its place by arrival: the oldest request always advances, so everyone finishes. New requests are
admitted in order of arrival while nobody lacks blocks; a large one at the head is not overtaken.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from simworkers.engine.config import Limits
from simworkers.engine.encoder_cache import EncoderCache
from simworkers.engine.kv_cache import BlockPool
from simworkers.engine.request import EmbeddingsKey, Request, State

WaitsFor = Literal["nothing", "blocks", "budget"]  # budget: of tokens, embeddings or running requests


@dataclass(frozen=True)
class Span:
    """Tokens start … start + count − 1 of a request."""

    request: Request
    start: int
    count: int
    encodes: tuple[int, ...] = ()  # indexes of the images that this span has to encode first


@dataclass
class StepPlan:
    """One step. Spans stand in order of priority."""

    spans: list[Span] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)
    tokens_left: int = 0
    encoder_left: int = 0
    waits_for: WaitsFor = "nothing"  # the head of the queue, once nobody else can be admitted

    def add(self, span: Span) -> None:
        self.spans.append(span)
        self.tokens_left -= span.count
        self.encoder_left -= sum(span.request.images[index].length for index in span.encodes)

    def drop(self, request: Request) -> None:
        """Take a request out again; what it would have used is free for others."""
        for span in [span for span in self.spans if span.request is request]:
            self.spans.remove(span)
            self.tokens_left += span.count
            self.encoder_left += sum(request.images[index].length for index in span.encodes)


class Scheduler:
    """Queues, and the plan of each step. Holds blocks and encoder entries for the requests that run.

    `running` and `waiting` are each in order of arrival, and all of `running` arrived before all of `waiting`.
    """

    def __init__(
        self,
        limits: Limits,
        pool: BlockPool,
        encoder_cache: EncoderCache,
        block_size: int,
        *,
        prefix_caching: bool,
    ) -> None:
        self.limits = limits
        self.pool = pool
        self.encoder_cache = encoder_cache
        self.block_size = block_size
        self.prefix_caching = prefix_caching
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []

    @property
    def is_idle(self) -> bool:
        return not self.waiting and not self.running

    def plan(self) -> StepPlan:
        """Decide the next step and take what it needs."""
        plan = StepPlan(tokens_left=self.limits.token_budget, encoder_left=self.limits.encoder_budget)
        everyone_advances = True
        decoding_first = sorted(self.running, key=lambda request: not request.decodes)
        for request in decoding_first:
            if request.state is State.RUNNING:  # else preempted a moment ago
                everyone_advances &= self._advance(request, plan)
        while everyone_advances and self.waiting and not plan.preempted and plan.tokens_left:
            if len(self.running) >= self.limits.max_running or not self._admit(self.waiting[0], plan):
                break
        if self.waiting and plan.waits_for == "nothing":
            plan.waits_for = "budget" if everyone_advances and not plan.preempted else "blocks"
        return plan

    def finish(self, request: Request, state: State) -> None:
        """Let go of everything that the request holds, wherever it stands."""
        if request.state is State.RUNNING:
            self.running.remove(request)
        else:
            self.waiting.remove(request)
        self._let_go(request)
        request.state = state

    def preempt(self, request: Request) -> None:
        """Back to the head of the queue; its KV is computed anew, as far as the prefix cache has lost it by then."""
        self.running.remove(request)
        self._let_go(request)
        request.num_computed = 0
        request.preemptions += 1
        request.state = State.WAITING
        self.waiting.appendleft(request)

    def release_passed_images(self, request: Request) -> None:
        """Images whose last token has its KV are not needed by this request any more."""
        for index in [i for i in request.held_images if request.images[i].stop <= request.num_computed]:
            self._release_image(request, index)

    def _advance(self, request: Request, plan: StepPlan) -> bool:
        """Give a running request its share; False if it lacked blocks."""
        count, encodes = self._fit(request, request.num_computed, plan)
        if not count:
            return True
        while (missing := self._missing_blocks(request, count)) > self.pool.num_free:
            victim = self.running[-1]
            plan.drop(victim)
            plan.preempted.append(victim)
            self.preempt(victim)
            if victim is request:
                return False
        request.blocks += self.pool.allocate(missing)
        self._take(request, request.num_computed, count, encodes, plan)
        return True

    def _admit(self, request: Request, plan: StepPlan) -> bool:
        """Start the request at the head of the queue, behind what the prefix cache has of it."""
        matched = self._match(request)
        start = len(matched) * self.block_size
        count, encodes = self._fit(request, start, plan)
        missing = -(-(start + count) // self.block_size) - len(matched)
        if not count:
            plan.waits_for = "budget"
            return False
        if missing > self.pool.num_available_beside(matched):
            plan.waits_for = "blocks"
            return False
        self.pool.hold(matched)
        request.blocks = matched + self.pool.allocate(missing)
        request.num_computed, request.num_registered = start, len(matched)
        if request.cached_tokens is None:  # counted once, not again after a preemption
            request.cached_tokens = start
        request.state = State.RUNNING
        self.running.append(self.waiting.popleft())
        self._take(request, start, count, encodes, plan)
        return True

    def _match(self, request: Request) -> list[int]:
        """Cached leading blocks. At least one token is left to compute, or there would be nothing to sample from."""
        if not self.prefix_caching:
            return []
        return self.pool.match(request.hashes[: (len(request.tokens) - 1) // self.block_size])

    def _fit(self, request: Request, start: int, plan: StepPlan) -> tuple[int, tuple[int, ...]]:
        """Tokens that fit this step from `start` on, and the images among them that have to be encoded for it.

        The span ends just before the first image that exceeds the encoder budget, or whose embeddings do not fit the
        cache beside those of the images before it.
        """
        count = min(len(request.tokens) - start, plan.tokens_left, self.limits.max_chunk or plan.tokens_left)
        budget, needed = plan.encoder_left, 0
        encodes: list[int] = []
        seen: set[EmbeddingsKey] = set()
        for index in self._images_within(request, start, count):
            image = request.images[index]
            if image.key in seen or self.encoder_cache.is_held(image.key):
                continue
            seen.add(image.key)
            needed += image.length
            is_new = image.key not in self.encoder_cache
            if (is_new and image.length > budget) or not self.encoder_cache.has_room(needed):
                return max(image.offset - start, 0), tuple(encodes)
            if is_new:
                budget -= image.length
                encodes.append(index)
        return count, tuple(encodes)

    def _images_within(self, request: Request, start: int, count: int) -> list[int]:
        """Images that [start, start + count) overlaps and that the request does not hold yet, in order of place."""
        return [
            index
            for index, image in enumerate(request.images)
            if start < image.stop and image.offset < start + count and index not in request.held_images
        ]

    def _missing_blocks(self, request: Request, count: int) -> int:
        return -(-(request.num_computed + count) // self.block_size) - len(request.blocks)

    def _take(
        self, request: Request, start: int, count: int, encodes: tuple[int, ...], plan: StepPlan
    ) -> None:
        """Hold the images of this span, known ones first: making room for new ones must not drop them."""
        within = self._images_within(request, start, count)
        for index in sorted(within, key=lambda index: request.images[index].key not in self.encoder_cache):
            image = request.images[index]
            self.encoder_cache.hold(image.key)
            request.held_images.add(index)
        plan.add(Span(request, start, count, encodes))

    def _let_go(self, request: Request) -> None:
        self.pool.release(request.blocks)
        request.blocks, request.num_registered = [], 0
        for index in list(request.held_images):
            self._release_image(request, index)

    def _release_image(self, request: Request, index: int) -> None:
        request.held_images.remove(index)
        self.encoder_cache.release(request.images[index].key)
