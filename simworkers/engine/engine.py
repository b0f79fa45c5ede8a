"""The engine: requests in, tokens out, one step at a time.

It has no clock. A step says what it computed, and whoever models time prices that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from simworkers.engine.admission import refuse_what_cannot_be_served
from simworkers.engine.arithmetic import BY_NAME, Layout, Segment
from simworkers.engine.block_hash import extend_hashes
from simworkers.engine.config import EngineConfig
from simworkers.engine.encoder import Encoder
from simworkers.engine.encoder_cache import EncoderCache
from simworkers.engine.kv_cache import BlockPool
from simworkers.engine.model import FlatBatch, Model, ModelWeights
from simworkers.engine.request import ImageInput, RefusedRequest, Request, Sampling, State
from simworkers.engine.sampling import choose
from simworkers.engine.scheduler import Scheduler, Span, StepPlan, WaitsFor


@dataclass(frozen=True)
class Output:
    """One token of one request. logprob: of the model itself, natural logarithm."""

    request: Request
    token: int
    logprob: float
    is_last: bool


@dataclass(frozen=True)
class Step:
    """What one step computed. encoded: embeddings of each image that went through the encoder.

    waits_for: what kept the head of the queue out.
    """

    spans: tuple[Span, ...]
    preempted: tuple[Request, ...]
    encoded: tuple[tuple[str, int], ...]
    outputs: tuple[Output, ...]
    waits_for: WaitsFor = "nothing"


@dataclass
class Statistics:
    """A request counts once, when it finishes; being preempted adds to `preemptions` and `computed_tokens` alone."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    computed_tokens: int = 0  # rows of all steps, recomputed ones included
    images: int = 0
    images_not_encoded: int = 0  # found, or covered by the prefix cache
    preemptions: int = 0


class Engine:
    """One replica. encoder may be None where no request brings an image."""

    def __init__(self, model: Model, encoder: Encoder | None, config: EngineConfig) -> None:
        self.model, self.encoder, self.config = model, encoder, config
        self.arithmetic = BY_NAME[config.arithmetic]
        self.pool = BlockPool(config.num_blocks)
        self.cache = model.make_cache(config.num_blocks, config.block_size)
        self.encoder_cache = EncoderCache(config.encoder_cache_embeddings, keep=config.encoder_caching)
        self.scheduler = Scheduler(
            config.limits,
            self.pool,
            self.encoder_cache,
            config.block_size,
            prefix_caching=config.prefix_caching,
        )
        self.requests: dict[str, Request] = {}  # those under way
        self.statistics = Statistics()
        self._arrivals = 0
        self._encoded_for: set[tuple[str, int]] = set()  # (request, image) that cost an encoding

    def add_request(
        self,
        request_id: str,
        prompt: Sequence[int],
        sampling: Sampling | None = None,
        images: Sequence[ImageInput] = (),
        salt: str | None = None,
    ) -> Request:
        """Queue a request. RefusedRequest, naming the field, for one that could never be served."""
        request = Request(
            id=request_id,
            tokens=list(prompt),
            num_prompt=len(prompt),
            sampling=sampling or Sampling(),
            images=tuple(sorted(images, key=lambda image: image.offset)),
            salt=salt,
            arrival=self._arrivals,
            weight_version=self._weight_version,
        )
        if request_id in self.requests:
            raise RefusedRequest(f"request_id: {request_id!r} is under way already")
        refuse_what_cannot_be_served(request, self.config, self.model.shape, self.encoder)
        self._arrivals += 1
        self._extend_hashes(request)
        self.requests[request_id] = request
        self.scheduler.waiting.append(request)
        return request

    def abort(self, request_id: str) -> None:
        """Stop a request wherever it stands; its blocks are free at once. KeyError for one that is not under way."""
        request = self.requests.pop(request_id)
        self.scheduler.finish(request, State.ABORTED)
        self._forget_encodings(request)

    def step(self) -> Step:
        """Plan and compute one step. Without anything to do the step is empty."""
        plan = self.scheduler.plan()
        self.statistics.preemptions += len(plan.preempted)
        for request in plan.preempted:
            self._name_anew(request)
        if not plan.spans:
            return Step((), tuple(plan.preempted), (), (), plan.waits_for)
        encoded = self._encode(plan)
        batch = self._flatten(plan)
        with torch.inference_mode():
            logits = self.model.forward(batch, self.cache, self.arithmetic)
            logprobs = self._logprobs(logits)
        outputs = self._settle(plan, logits, logprobs)
        return Step(tuple(plan.spans), tuple(plan.preempted), encoded, outputs, plan.waits_for)

    def run(self) -> list[Step]:
        """Step until nothing is under way."""
        steps = []
        while not self.scheduler.is_idle:
            steps.append(self.step())
        return steps

    def reset_caches(self, *, preempt: bool = False) -> None:
        """Forget all KV and embeddings. CacheInUse while requests run, unless they are preempted first."""
        if preempt:
            for request in reversed(list(self.scheduler.running)):
                self.scheduler.preempt(request)
                self.statistics.preemptions += 1
        self.pool.reset()
        self.encoder_cache.reset()

    def load_weights(self, weights: ModelWeights, *, reset: bool = True, preempt: bool = False) -> None:
        """Serve other weights from the next step on. KV of the old ones goes, unless `reset` is off: then tokens cached
        under the old weights are mixed with new ones, and nothing fails."""
        if reset:
            self.reset_caches(preempt=preempt)
        self.model.weights = weights
        if self.config.weight_version_in_hash:
            for request in self.scheduler.waiting:
                self._name_anew(request)

    def check_integrity(self) -> None:
        """AssertionError unless caches are whole and every holder is a request that runs."""
        self.pool.check_integrity()
        self.encoder_cache.check_integrity()
        held = sum(len(request.blocks) for request in self.scheduler.running)
        assert sum(self.pool.holders) == held, "blocks are held by nobody, or held twice"
        assert not any(request.blocks or request.held_images for request in self.scheduler.waiting)
        arrivals = [request.arrival for request in (*self.scheduler.running, *self.scheduler.waiting)]
        assert arrivals == sorted(arrivals), "somebody overtook"

    def _encode(self, plan: StepPlan) -> tuple[tuple[str, int], ...]:
        encoded = []
        for span in plan.spans:
            for index in span.encodes:
                image = span.request.images[index]
                assert self.encoder is not None
                with torch.inference_mode():
                    embeddings = self.encoder.encode(image.patches, image.grid)
                self.encoder_cache.store(image.key, embeddings)
                self._encoded_for.add((span.request.id, index))
                encoded.append((image.identifier, image.length))
        return tuple(encoded)

    def _flatten(self, plan: StepPlan) -> FlatBatch:
        device = self.model.device
        tokens: list[int] = []
        positions, slots, segments, sampled = [], [], [], []
        spliced_rows, spliced = [torch.empty(0, dtype=torch.int64)], [self.model.weights.embedding[:0]]
        for span in plan.spans:
            request, row, stop = span.request, len(tokens), span.start + span.count
            seen = self.cache.slots(request.blocks, stop)
            tokens += request.tokens[span.start : stop]
            positions.append(np.arange(span.start, stop))
            slots.append(seen[span.start :])
            segments.append(Segment(row, span.count, span.start, seen))
            if stop == len(request.tokens):
                sampled.append(row + span.count - 1)
            for image in request.images:
                first, last = max(image.offset, span.start), min(image.stop, stop)
                if first < last:
                    spliced_rows.append(torch.arange(first, last) + (row - span.start))
                    known = self.encoder_cache.read(image.key)
                    spliced.append(known[first - image.offset : last - image.offset])
        return FlatBatch(
            tokens=torch.tensor(tokens, device=device),
            positions=torch.from_numpy(np.concatenate(positions)).to(device),
            slots=torch.from_numpy(np.concatenate(slots)).to(device),
            layout=Layout(segments, device),
            sampled=torch.tensor(sampled, dtype=torch.int64, device=device),
            spliced_rows=torch.cat(spliced_rows).to(device),
            spliced=torch.cat(spliced),
        )

    def _logprobs(self, logits: torch.Tensor) -> torch.Tensor:
        """[N, V] float64, row by row where the engine computes so."""
        rows = torch.arange(len(logits), device=logits.device)
        return self.arithmetic.map(lambda x, _: torch.log_softmax(x.to(torch.float64), dim=-1), logits, rows)

    def _settle(self, plan: StepPlan, logits: torch.Tensor, logprobs: torch.Tensor) -> tuple[Output, ...]:
        """Book what was computed, and append a token to every sequence that is known to its end."""
        for span in plan.spans:
            request = span.request
            request.num_computed = span.start + span.count
            self.statistics.computed_tokens += span.count
            self._register_full_blocks(request)
            self.scheduler.release_passed_images(request)
        known = [span.request for span in plan.spans if span.request.num_left == 0]
        chosen = choose(logits, logprobs, [(request.sampling, len(request.logprobs)) for request in known])
        return tuple(self._append(request, *choice) for request, choice in zip(known, chosen, strict=True))

    def _append(self, request: Request, token: int, logprob: float) -> Output:
        request.tokens.append(token)
        request.logprobs.append(logprob)
        self._extend_hashes(request)
        is_last = (
            len(request.logprobs) == request.sampling.max_tokens or token in request.sampling.stop_tokens
        )
        if is_last:
            del self.requests[request.id]
            self.scheduler.finish(request, State.FINISHED)
            self._count(request)
        return Output(request, token, logprob, is_last)

    def _count(self, request: Request) -> None:
        statistics = self.statistics
        statistics.requests += 1
        statistics.prompt_tokens += request.num_prompt
        statistics.cached_tokens += request.cached_tokens or 0
        statistics.images += len(request.images)
        encoded = sum((request.id, index) in self._encoded_for for index in range(len(request.images)))
        statistics.images_not_encoded += len(request.images) - encoded
        self._forget_encodings(request)

    def _forget_encodings(self, request: Request) -> None:
        self._encoded_for -= {(request.id, index) for index in range(len(request.images))}

    def _register_full_blocks(self, request: Request) -> None:
        if not self.config.prefix_caching:
            return
        for index in range(request.num_registered, request.num_computed // self.config.block_size):
            self.pool.register(request.blocks[index], request.hashes[index])
            request.num_registered = index + 1

    @property
    def _weight_version(self) -> int | None:
        return self.model.weights.version if self.config.weight_version_in_hash else None

    def _name_anew(self, request: Request) -> None:
        """A request that holds nothing starts over under the weights of now. One that runs across an update keeps the
        names that it began with: its first KV stems from the old weights."""
        if request.weight_version != self._weight_version:
            request.weight_version = self._weight_version
            request.hashes.clear()
            self._extend_hashes(request)

    def _extend_hashes(self, request: Request) -> None:
        extend_hashes(
            request.hashes,
            request.tokens,
            self.config.block_size,
            request.images,
            request.salt,
            request.weight_version,
        )
