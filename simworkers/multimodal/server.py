"""Chats served by the real engine, on a modelled clock in whole microseconds.

What is counted (hits, tokens, embeddings, preemptions) really happens: files are decoded, patches encoded, tokens
computed. How long a step takes is the roofline of the accounted model; the clock decides who meets whom in a step.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256

import torch

from simworkers.engine.config import EngineConfig, Limits
from simworkers.engine.encoder import Encoder, EncoderShape
from simworkers.engine.engine import Engine, Step
from simworkers.engine.images import decode_image
from simworkers.engine.model import Model, ModelShape, ModelWeights
from simworkers.engine.patches import ProcessorArgs
from simworkers.engine.preprocessing import Preprocessor
from simworkers.engine.request import ImageInput, Request, Sampling, State
from simworkers.multimodal.clients import Pixels
from simworkers.multimodal.conversation import PLACEHOLDER, VOCABULARY, Chat, Workload
from simworkers.multimodal.identity import identify_image
from simworkers.multimodal.params import BLOCK_SIZE, MultimodalParams
from simworkers.multimodal.stages import Prices, StepTime

MODEL_SHAPE = ModelShape(
    vocabulary=VOCABULARY, hidden=64, layers=2, heads=4, kv_heads=2, head_dim=16, feed_forward=128
)
ENCODER_SHAPE = EncoderShape(patch_numbers=588, hidden=32, layers=1, heads=2, feed_forward=64, out=64)
WEIGHT_SEED = 20  # of the one tiny model that every run uses
US_PER_S = 1_000_000
PICTURE_LIMIT_S = 30.0


@dataclass
class Picture:
    """One picture in one turn, and what was found of it."""

    index: int
    data: bytes
    pixels: Pixels  # as the server decodes it
    args: ProcessorArgs
    image: ImageInput
    is_preprocessed: bool  # False: found in the preprocessing cache
    is_encoded: bool = False  # this turn cost an encoding


@dataclass
class Turn:
    """One turn of one user. Times in µs of the modelled clock."""

    user: int
    turn: int
    sent_us: int
    upload_us: int
    preprocess_us: int
    pictures: list[Picture]
    prompt: list[int]
    salt: str | None
    request: Request | None = None
    encode_us: int = 0
    prefill_us: int = 0
    queue_us: int = 0
    decode_us: int = 0
    blocked_us: int = 0  # not served for lack of KV blocks, before or after the first token
    hbm_us: int = 0  # of encode, prefill and decode: bound by HBM, and by arithmetic
    flops_us: int = 0
    first_token_us: int | None = None
    done_us: int | None = None

    @property
    def ready_us(self) -> int:
        return self.sent_us + self.upload_us + self.preprocess_us

    @property
    def ttft_us(self) -> int:
        assert self.first_token_us is not None
        return self.first_token_us - self.sent_us


@dataclass(frozen=True)
class Occupancy:
    """Fill of the caches after a step that read a prompt or ended a turn."""

    time_us: int
    held_blocks: int
    cached_blocks: int  # free for others, but still findable
    embeddings: int
    patch_bytes: int


def build_engine(params: MultimodalParams, device: str = "cpu") -> Engine:
    """The engine that a run's parameters ask for. float64, so that no rounding decides a token."""
    limits = Limits(params.token_budget, params.encoder_budget, max_running=64, max_chunk=params.max_chunk)
    config = EngineConfig(
        num_blocks=params.kv_blocks,
        block_size=BLOCK_SIZE,
        encoder_cache_embeddings=params.encoder_cache_embeddings,
        limits=limits,
        prefix_caching=params.prefix_caching,
        encoder_caching=params.encoder_caching,
    )
    return Engine(*build_networks(device), config)


def build_networks(device: str = "cpu") -> tuple[Model, Encoder]:
    weights = ModelWeights.draw(MODEL_SHAPE, WEIGHT_SEED, torch.float64, device)
    return Model(MODEL_SHAPE, weights), Encoder(ENCODER_SHAPE, WEIGHT_SEED, torch.float64, device)


@dataclass
class Server:
    """All chats of a run, played to their end. on_step is told the step and the turns that it served."""

    params: MultimodalParams
    workload: Workload
    on_step: Callable[[Step], None]
    device: str = "cpu"
    turns: list[Turn] = field(default_factory=list)  # in the order in which they were sent
    occupancy: list[Occupancy] = field(default_factory=list)
    preemptions: int = 0

    def __post_init__(self) -> None:
        self.prices = Prices(self.params)
        self.engine = build_engine(self.params, self.device)
        # The server's part of a stranger's file has a process of its own. This process plays the client and so decodes
        # the file, too: what holds it is the supervised child in which runs compute.
        self.preprocessor = Preprocessor(
            workers=int(self.params.picture == "own"),
            cache_bytes=int(self.params.preprocess_cache_mb * 1e6),
            time_limit_s=PICTURE_LIMIT_S,
        )
        self.clock_us = 0
        self._events: list[tuple[int, int, Chat | Turn]] = []
        self._events_made = 0
        self._under_way: dict[str, tuple[Chat, Turn]] = {}
        for chat in self.workload.chats:
            self._at(self.workload.first_arrival_us(chat.user), chat)

    def play(self) -> None:
        with self.preprocessor:
            self._play()

    def _play(self) -> None:
        while self._events or self._under_way:
            if not self._under_way:
                self.clock_us = max(self.clock_us, self._events[0][0])
            while self._events and self._events[0][0] <= self.clock_us:
                when_us, _, event = heapq.heappop(self._events)
                self._send(event, when_us) if isinstance(event, Chat) else self._queue(event)
            if self._under_way:
                self._step()

    def _at(self, when_us: int, event: Chat | Turn) -> None:
        self._events_made += 1  # equal times keep the order in which events were made
        heapq.heappush(self._events, (when_us, self._events_made, event))

    def _send(self, chat: Chat, now_us: int) -> None:
        number = chat.next_turn
        sent = self.workload.pictures(chat, number)
        pictures = [self._process(index, data, client_id, number) for index, data, client_id in sent]
        prompt, placed = self._place(self.workload.messages(chat, number), pictures)
        turn = Turn(
            user=chat.user,
            turn=number,
            sent_us=now_us,
            upload_us=self.prices.upload(sum(len(picture.data) for picture in placed)).us,
            preprocess_us=max(self._preprocess_us(picture) for picture in placed),
            pictures=placed,
            prompt=prompt,
            salt=self._salt(chat.user, number),
        )
        self.turns.append(turn)
        self._at(turn.ready_us, turn)

    def _process(self, index: int, data: bytes, client_id: str, turn: int) -> Picture:
        """Decode, resize and patch a file, or find its patches; its place in the prompt comes later."""
        args = processor_args(self.params, turn)
        before = self.preprocessor.statistics().misses
        processed = self.preprocessor.process(data, args)
        image = ImageInput(
            identifier=identify_image(self.params.identity, data, args, client_id),
            offset=0,
            length=processed.num_tokens,
            patches=torch.tensor(processed.patches),
            grid=processed.grid,
        )
        is_new = self.preprocessor.statistics().misses > before
        return Picture(index, data, decode_image(data), args, image, is_new)

    def _place(
        self, parts: list[list[int] | int], pictures: list[Picture]
    ) -> tuple[list[int], list[Picture]]:
        """The prompt with placeholders, and the pictures where they stand in it."""
        by_index = {picture.index: picture for picture in pictures}
        prompt: list[int] = []
        for part in parts:
            if isinstance(part, int):
                picture = by_index[part]
                old = picture.image
                picture.image = ImageInput(old.identifier, len(prompt), old.length, old.patches, old.grid)
                prompt += [PLACEHOLDER] * old.length
            else:
                prompt += part
        return prompt, pictures

    def _preprocess_us(self, picture: Picture) -> int:
        """Each picture has a core of its own, so a turn waits for its slowest one."""
        height, width = picture.pixels.shape[:2]
        if picture.is_preprocessed:
            return self.prices.preprocess(width * height).us
        return self.prices.decode_file(width * height).us if self.params.identity == "pixels" else 0

    def _salt(self, user: int, turn: int) -> str | None:
        match self.params.salt:
            case "user":
                return f"user {user}"
            case "turn" if turn >= self.params.onset_turn:
                return f"user {user}, turn {turn}"
        return None

    def _queue(self, turn: Turn) -> None:
        name = f"user {turn.user}, turn {turn.turn}"
        turn.request = self.engine.add_request(
            name,
            turn.prompt,
            Sampling(max_tokens=self.params.answer_tokens),
            [picture.image for picture in turn.pictures],
            turn.salt,
        )
        turn.queue_us = self.clock_us - turn.ready_us
        self._under_way[name] = (self.workload.chats[turn.user], turn)

    def _step(self) -> None:
        step = self.engine.step()
        time = self.prices.step(step)
        self.clock_us += time.us
        self.preemptions += len(step.preempted)
        served = {span.request.id: span for span in step.spans}
        for name, (_, turn) in self._under_way.items():
            span = served.get(name)
            images = [turn.pictures[self._picture_of(turn, index)] for index in span.encodes] if span else []
            self._book(turn, time, images, step, is_served=span is not None)
        for output in step.outputs:
            chat, turn = self._under_way[output.request.id]
            if turn.first_token_us is None:
                turn.first_token_us = self.clock_us
            if output.is_last:
                self._finish(chat, turn)
        if any(span.count > 1 for span in step.spans) or any(output.is_last for output in step.outputs):
            self._note_occupancy()
        self.on_step(step)

    def _picture_of(self, turn: Turn, image_index: int) -> int:
        assert turn.request is not None
        offset = turn.request.images[image_index].offset
        return next(n for n, picture in enumerate(turn.pictures) if picture.image.offset == offset)

    def _book(
        self, turn: Turn, time: StepTime, encoded: list[Picture], step: Step, *, is_served: bool
    ) -> None:
        """Give every microsecond of a step to one stage of each turn that is under way."""
        assert turn.request is not None
        if not is_served:
            if turn.first_token_us is None:
                turn.queue_us += time.us
            lacks_blocks = turn.request.state is State.WAITING and step.waits_for == "blocks"
            turn.blocked_us += time.us * lacks_blocks
            return
        for picture in encoded:
            picture.is_encoded = True
        own_encode_us = min(self.prices.encode([p.image for p in encoded]).us, time.encode.us)
        turn.encode_us += own_encode_us
        if turn.first_token_us is None:
            turn.queue_us += time.encode.us - own_encode_us  # images of others
            turn.prefill_us += time.decode.us
        else:
            turn.decode_us += time.encode.us - own_encode_us + time.decode.us
        for part, share_us in ((time.encode, own_encode_us), (time.decode, time.decode.us)):
            turn.hbm_us += share_us * (part.binds == "hbm")
            turn.flops_us += share_us * (part.binds != "hbm")

    def _finish(self, chat: Chat, turn: Turn) -> None:
        assert turn.request is not None
        turn.done_us = self.clock_us
        del self._under_way[turn.request.id]
        chat.answers.append(list(turn.request.outputs))
        if chat.next_turn <= self.params.turns:
            self._at(self.clock_us + round(self.params.think_s * US_PER_S), chat)

    def _note_occupancy(self) -> None:
        pool = self.engine.pool
        held = pool.num_blocks - pool.num_free
        self.occupancy.append(
            Occupancy(
                time_us=self.clock_us,
                held_blocks=held,
                cached_blocks=pool.num_cached_free,
                embeddings=self.engine.encoder_cache.used,
                patch_bytes=self.preprocessor.cached_bytes,
            )
        )


def processor_args(params: MultimodalParams, turn: int) -> ProcessorArgs:
    """What the server's processor is set to in this turn."""
    tokens = params.max_image_tokens
    if params.processor_change_turn and turn >= params.processor_change_turn:
        tokens = tokens * 3 // 4
    if params.scheme == "native":
        return ProcessorArgs(max_tokens=tokens)
    tile_tokens = (params.tile_px // 28) ** 2
    # The thumbnail counts as well, so the tiles are one fewer than fit; a single tile needs none.
    most = max(tokens // tile_tokens - 1, 1)
    return ProcessorArgs(max_tokens=max(tokens, tile_tokens), tile_px=params.tile_px, max_tiles=most)


def fingerprint(data: bytes) -> str:
    """Eight hex digits that tell two files apart in telemetry."""
    return sha256(data).hexdigest()[:8]
