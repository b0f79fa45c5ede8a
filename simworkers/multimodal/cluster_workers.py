"""The two kinds of worker: one that encodes images, and one that runs the language model (and may encode, too)."""

from collections import defaultdict, deque
from dataclasses import dataclass, field

from simworkers.multimodal.arrivals import Arrival
from simworkers.multimodal.cluster_params import ClusterParams
from simworkers.multimodal.profiles import STAGE_GPUS, VISION_LANGUAGE_MODELS
from simworkers.multimodal.stage_cost import (
    MICROSECONDS,
    Placement,
    causal_pairs,
    decoder_pass,
    encode,
    transfer,
)


@dataclass(eq=False, slots=True)
class Job:
    """One request on its way. Times are microseconds since the start; -1 is not yet."""

    arrival: Arrival
    image_tokens: int  # of each image
    encoded: int  # images that need no encoding by the language worker any more
    missing: int = 0  # embeddings still on their way
    prefilled: int = 0  # prompt tokens with KV
    queued_us: int = -1  # at the language worker
    admitted_us: int = -1
    first_token_us: int = -1
    finished_us: int = -1

    @property
    def prompt_tokens(self) -> int:
        return self.arrival.images * self.image_tokens + self.arrival.text_tokens

    @property
    def kv_tokens(self) -> int:
        """Room it reserves: all it will ever hold, so that nothing is ever preempted."""
        return self.prompt_tokens + self.arrival.output_tokens


class Prices:
    """Microseconds of every stage for one set of parameters."""

    def __init__(self, params: ClusterParams) -> None:
        self.model = VISION_LANGUAGE_MODELS[params.model]
        self.gpu = STAGE_GPUS[params.gpu]
        self.placement = Placement(self.gpu, params.tensor_parallel)
        self.overhead_us = params.step_overhead_us
        self.sequences = self.model.image_sequences(params.image_width_px, params.image_height_px)
        self.image_tokens = self.model.image_tokens(params.image_width_px, params.image_height_px)
        self.embedding_us = transfer(self.model, self.image_tokens, params.link_bytes_per_s).us
        self._encode_us: dict[int, int] = {0: 0}

    def encode_us(self, images: int) -> int:
        """One batch of equal images on one GPU."""
        if images not in self._encode_us:
            time = encode(self.model.encoder, self.gpu, self.sequences * images)
            self._encode_us[images] = time.us + self.overhead_us
        return self._encode_us[images]

    def encode_gpu_us(self, images: int, gpus: int = 1) -> int:
        """GPU time that executes the same images, shared out evenly; no host time, no wait for another GPU."""
        each, more = divmod(images, gpus)
        shares = [each + 1] * more + [each] * (gpus - more)
        return sum(self.encode_us(share) - self.overhead_us for share in shares if share)

    def kv_room_tokens(self, params: ClusterParams) -> int:
        """Of one language worker: its HBM without weights; a worker that encodes holds the encoder, too.

        The encoder lies on every GPU of a group, since it is not split. Raises ValueError naming the model where the
        largest request that can be drawn does not fit.
        """
        ranks = params.tensor_parallel
        usable = self.gpu.hbm_bytes * ranks * params.hbm_share_percent // 100
        encoder = 0 if params.encoder_workers else self.model.encoder.weights_bytes * ranks
        room = (usable - self.model.decoder.weights_bytes - encoder) // self.model.decoder.kv_bytes_per_token
        largest = params.images_max * self.image_tokens + params.text_tokens_max + params.output_tokens_max
        if room < largest:
            raise ValueError(
                f"model: {ranks} × {self.gpu.name} leave room for {max(room, 0)} KV tokens beside the weights of "
                f"{self.model.name}; the largest request needs {largest}"
            )
        return room


class EncoderWorker:
    """One GPU that encodes images in batches, first come first served, and sends embeddings over its own link."""

    def __init__(self, prices: Prices, batch_images: int) -> None:
        self.prices, self.batch_images = prices, batch_images
        self.waiting: deque[tuple[Job, int]] = deque()  # with the time each image was queued
        self.batch: list[Job] = []
        self.link_free_us = 0
        self.executing_us = 0
        self.waits_us: list[int] = []

    @property
    def outstanding(self) -> int:
        return len(self.waiting) + len(self.batch)

    def start(self, now_us: int) -> int:
        """Take the next batch; its duration, 0 where nothing waits."""
        taken = [self.waiting.popleft() for _ in range(min(self.batch_images, len(self.waiting)))]
        self.batch = [job for job, _ in taken]
        self.waits_us += [now_us - queued_us for _, queued_us in taken]
        return self.prices.encode_us(len(taken))

    def finish(self) -> list[Job]:
        """The images of the batch that ends now, booked as executing only here: the horizon may cut a batch off."""
        done, self.batch = self.batch, []
        self.executing_us += self.prices.encode_gpu_us(len(done))
        return done

    def send(self, now_us: int, latency_us: int) -> int:
        """One image's embeddings; when they arrive. The link carries one at a time."""
        self.link_free_us = max(self.link_free_us, now_us) + self.prices.embedding_us
        return self.link_free_us + latency_us


@dataclass
class StepTimes:
    """Of a language worker's finished steps, by what bound them. All its GPUs are bound by all but the encode alike."""

    encode_gpu_us: int = 0  # summed over the GPUs that encode; the others of the group wait
    hbm_us: int = 0
    flops_us: int = 0
    links_us: int = 0
    steps_us: int = 0  # from start to end: encodes, passes and host time
    kv_blocked_us: int = 0  # of all steps, those that left the next request waiting for KV room

    def executing_gpu_us(self, ranks: int) -> int:
        """Summed over the worker's GPUs."""
        return self.encode_gpu_us + ranks * (self.hbm_us + self.flops_us + self.links_us)


@dataclass
class Step:
    """What one step does: prefill chunks, and images to encode before them; and the microseconds of its parts."""

    chunks: list[tuple[Job, int]] = field(default_factory=list)
    images: int = 0
    encode_us: int = 0
    pass_us: int = 0
    links_us: int = 0  # of pass_us
    reads: bool = False  # HBM bounds the pass, not FLOPs
    blocked: bool = False  # the next request waited for KV room


class LanguageWorker:
    """Continuous batching: each step decodes every running request once and fills its token budget with chunks.

    Images stand before the text. A worker that encodes does so within the step, before the language model, so that the
    whole batch waits; a chunk is cut before an image that does not fit the step's encoder budget (as many embeddings as
    the token budget, at least one image for each GPU that encodes).
    """

    def __init__(self, prices: Prices, params: ClusterParams) -> None:
        self.prices, self.params = prices, params
        self.kv_free_tokens = prices.kv_room_tokens(params)
        self.encoding_gpus = params.tensor_parallel if params.spread_images else 1
        self.images_a_step = max(self.encoding_gpus, params.token_budget // prices.image_tokens)
        self.waiting: deque[Job] = deque()
        self.prefilling: deque[Job] = deque()
        self.decoding = 0
        self.context_tokens = 0  # that the next decode step reads, of all decoding requests
        self.finishing: dict[int, list[Job]] = defaultdict(list)  # by the step that makes their last token
        self.step_index = 0
        self.step: Step | None = None
        self.times = StepTimes()

    @property
    def outstanding(self) -> int:
        return len(self.waiting) + len(self.prefilling) + self.decoding

    def queue(self, job: Job, now_us: int) -> None:
        job.queued_us = now_us
        self.waiting.append(job)

    def start(self, now_us: int) -> int:
        """Plan and price the next step; its duration, 0 where there is nothing to do."""
        blocked = self._admit(now_us)
        step = self._plan()
        if not step.chunks and not self.decoding:
            return 0
        self._price(step)
        step.blocked = blocked
        self.step = step
        return self._took_us(step)

    def finish(self, now_us: int) -> list[Job]:
        """Book the step that ends now; the requests that it completed."""
        assert self.step is not None
        self._book(self.step)
        self.context_tokens += self.decoding
        done = self.finishing.pop(self.step_index, [])
        self.decoding -= len(done)
        self.context_tokens -= sum(job.kv_tokens for job in done)
        for job, tokens in self.step.chunks:
            job.prefilled += tokens
            if job.prefilled == job.prompt_tokens:
                self._answer(job, now_us, done)
        for job in done:
            job.finished_us = now_us
            self.kv_free_tokens += job.kv_tokens
        self.step_index += 1
        self.step = None
        return done

    def _answer(self, job: Job, now_us: int, done: list[Job]) -> None:
        """The end of a prefill is the first token; the others take a step each."""
        self.prefilling.remove(job)
        job.first_token_us = now_us
        if job.arrival.output_tokens == 1:
            done.append(job)
            return
        self.decoding += 1
        self.context_tokens += job.prompt_tokens + 1
        self.finishing[self.step_index + job.arrival.output_tokens - 1].append(job)

    def _admit(self, now_us: int) -> bool:
        """In order of arrival; whether the next one waits for KV room."""
        while self.waiting and len(self.prefilling) + self.decoding < self.params.max_batch:
            job = self.waiting[0]
            if job.kv_tokens > self.kv_free_tokens:
                return True
            self.waiting.popleft()
            self.kv_free_tokens -= job.kv_tokens
            job.admitted_us = now_us
            self.prefilling.append(job)
        return False

    def _plan(self) -> Step:
        step, budget = Step(), self.params.token_budget - self.decoding
        for job in self.prefilling:
            tokens = min(budget, job.prompt_tokens - job.prefilled)
            missing = job.arrival.images - job.encoded
            if missing > self.images_a_step - step.images:
                reach = (job.encoded + self.images_a_step - step.images) * job.image_tokens
                tokens = min(tokens, reach - job.prefilled)
            if tokens <= 0:
                break
            needed = min(job.arrival.images, -(-(job.prefilled + tokens) // job.image_tokens))
            step.images += max(0, needed - job.encoded)
            job.encoded = max(job.encoded, needed)
            step.chunks.append((job, tokens))
            budget -= tokens
        return step

    def _price(self, step: Step) -> None:
        tokens, read, pairs = self.decoding, self.context_tokens, self.context_tokens
        for job, chunk in step.chunks:
            tokens += chunk
            read += job.prefilled
            pairs += causal_pairs(chunk, job.prefilled)
        time = decoder_pass(self.prices.model.decoder, self.prices.placement, tokens, read, pairs)
        step.encode_us = self.prices.encode_us(-(-step.images // self.encoding_gpus))
        step.pass_us = time.us
        step.links_us = int(time.links_s * MICROSECONDS)
        step.reads = time.hbm_s >= time.flops_s

    def _book(self, step: Step) -> None:
        times, computed_us = self.times, step.pass_us - step.links_us
        took_us = self._took_us(step)
        times.encode_gpu_us += self.prices.encode_gpu_us(step.images, self.encoding_gpus)
        times.links_us += step.links_us
        times.steps_us += took_us
        if step.reads:
            times.hbm_us += computed_us
        else:
            times.flops_us += computed_us
        if step.blocked:
            times.kv_blocked_us += took_us

    def _took_us(self, step: Step) -> int:
        return step.encode_us + step.pass_us + self.prices.overhead_us
