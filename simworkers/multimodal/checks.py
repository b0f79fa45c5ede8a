"""What must hold in every run, and the first event where it did not."""

from collections.abc import Callable
from dataclasses import replace

from simworkers.engine.config import EngineConfig, Limits
from simworkers.engine.engine import Engine, Step
from simworkers.engine.request import Sampling
from simworkers.invariants import Invariants
from simworkers.multimodal.params import BLOCK_SIZE, MultimodalParams
from simworkers.multimodal.server import Picture, Server, Turn, build_networks

NAMES = (
    "own_picture_only",  # KV and embeddings stem from the picture that was sent, never from another one
    "cold_replay_agrees",  # each user's last prompt, without caches: same tokens, same log-probabilities
    "caches_intact",  # counts, free lists and names agree whenever a turn has ended
    "tokens_accounted",  # found + computed = prompt + outputs but the last, for every turn that was not preempted
    "stages_add_up",  # the stages of every turn sum to its TTFT
    "caches_within_budget",
)
REPLAY_TOKENS = 1024  # a step; a longer prompt would need the square of its length in memory
REPLAY_TOLERANCE = 1e-7  # of log-probabilities in float64
Origin = tuple[int, int]  # whose picture, and which of the chat's


class Checks(Invariants):
    """Every invariant of the lab, looked at where it could break."""

    def __init__(self, params: MultimodalParams) -> None:
        self.params = params
        super().__init__(NAMES)
        self.wrong_pictures = 0
        self._origin_of_block: dict[int, tuple[Origin, ...]] = {}
        self._origin_of_embeddings: dict[tuple[str, int], Origin] = {}
        self._computed: dict[str, int] = {}
        self._known_blocks: dict[str, int] = {}

    def step(self, step: Step, engine: Engine, turns: dict[str, Turn]) -> None:
        """turns: by request name."""
        if any(output.is_last for output in step.outputs):
            self._check_caches(engine)
        for span in step.spans:
            turn = turns[span.request.id]
            for index in span.encodes:
                picture = turn.pictures[index]
                self._origin_of_embeddings[picture.image.key] = self._origin(turn, picture)
            if span.request.id not in self._known_blocks:
                self._check_origins(turn, span.encodes)
            self._note_new_blocks(turn)
            self._computed[span.request.id] = self._computed.get(span.request.id, 0) + span.count

    def finish(self, server: Server, cache_bytes: int, budget_bytes: int, tick: Callable[[], None]) -> None:
        """After the last step. tick: called between the steps of replays."""
        for turn in server.turns:
            self._account(turn)
        for user in range(self.params.users):
            last = max((turn for turn in server.turns if turn.user == user), key=lambda turn: turn.turn)
            self._replay(last, server.device, tick)
        if cache_bytes > budget_bytes:
            self.break_by_setting("caches_within_budget", f"{cache_bytes:,} bytes, {budget_bytes:,} allowed")

    def _check_caches(self, engine: Engine) -> None:
        try:
            engine.check_integrity()
        except AssertionError as error:
            self.break_("caches_intact", str(error))

    def _origin(self, turn: Turn, picture: Picture) -> Origin:
        is_everyones = self.params.same_picture or (self.params.picture == "own" and picture.index == 0)
        return (0 if is_everyones else turn.user, picture.index)

    def _used(self, turn: Turn, picture: Picture) -> Origin:
        """Whose embeddings stand behind the picture's placeholders."""
        return self._origin_of_embeddings.get(picture.image.key, self._origin(turn, picture))

    def _check_origins(self, turn: Turn, encodes: tuple[int, ...]) -> None:
        """Once a turn: what stands behind the blocks and embeddings that it found."""
        request = turn.request
        assert request is not None and request.cached_tokens is not None
        wrong: set[int] = set()
        for index, block in enumerate(request.blocks[: request.cached_tokens // BLOCK_SIZE]):
            own = self._origins_within(turn, index, self._origin)
            for found, expected in zip(self._origin_of_block.get(block, ()), own, strict=False):
                if found != expected:
                    wrong.add(expected[1])
        for index, picture in enumerate(turn.pictures):
            needed = picture.image.stop > request.cached_tokens
            if index not in encodes and needed and self._used(turn, picture) != self._origin(turn, picture):
                wrong.add(picture.index)
        self.wrong_pictures += len(wrong)
        for index in sorted(wrong):
            event = f"{request.id}: picture {index} was answered from another picture's KV or embeddings"
            blame = self.break_by_setting if self.params.identity == "client_id" else self.break_
            blame("own_picture_only", event)

    def _origins_within(
        self, turn: Turn, block: int, origin: Callable[[Turn, Picture], Origin]
    ) -> tuple[Origin, ...]:
        start, stop = block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE
        return tuple(
            origin(turn, picture)
            for picture in turn.pictures
            if picture.image.offset < stop and start < picture.image.stop
        )

    def _note_new_blocks(self, turn: Turn) -> None:
        request = turn.request
        assert request is not None
        first = self._known_blocks.get(request.id, (request.cached_tokens or 0) // BLOCK_SIZE)
        for index in range(first, request.num_registered):
            if index < len(request.blocks):
                self._origin_of_block[request.blocks[index]] = self._origins_within(turn, index, self._used)
        self._known_blocks[request.id] = max(request.num_registered, first)

    def _account(self, turn: Turn) -> None:
        request = turn.request
        assert request is not None and request.cached_tokens is not None
        computed = self._computed[request.id]
        if not request.preemptions and request.cached_tokens + computed != len(request.tokens) - 1:
            self.break_(
                "tokens_accounted", f"{request.id}: {request.cached_tokens} found, {computed} computed"
            )
        stages = turn.upload_us + turn.preprocess_us + turn.queue_us + turn.encode_us + turn.prefill_us
        if stages != turn.ttft_us:
            self.break_("stages_add_up", f"{request.id}: stages take {stages} µs, TTFT is {turn.ttft_us} µs")

    def _replay(self, turn: Turn, device: str, tick: Callable[[], None]) -> None:
        """The same prompt on an engine without caches, alone, and whole up to REPLAY_TOKENS."""
        assert turn.request is not None
        # By identifiers of their own: whatever the run took for the same picture is encoded apart.
        images = [replace(picture.image, identifier=f"{picture.index}") for picture in turn.pictures]
        blocks = -(-len(turn.request.tokens) // BLOCK_SIZE)
        embeddings = sum(image.length for image in images)
        config = EngineConfig(
            num_blocks=blocks,
            block_size=BLOCK_SIZE,
            encoder_cache_embeddings=embeddings,
            limits=Limits(token_budget=min(len(turn.prompt), REPLAY_TOKENS), encoder_budget=embeddings),
            prefix_caching=False,
            encoder_caching=False,
        )
        engine = Engine(*build_networks(device), config)
        cold = engine.add_request(
            "replay", turn.prompt, Sampling(max_tokens=self.params.answer_tokens), images
        )
        while not engine.scheduler.is_idle:
            engine.step()
            tick()
        # Tokens alone would seldom tell: a tiny model answers most pictures alike.
        pairs = zip(cold.logprobs, turn.request.logprobs, strict=True)
        if cold.outputs != turn.request.outputs or any(abs(a - b) > REPLAY_TOLERANCE for a, b in pairs):
            event = f"{turn.request.id}: answers other than an engine without caches gives"
            blame = self.break_by_setting if self.params.identity == "client_id" else self.break_
            blame("cold_replay_agrees", event)
