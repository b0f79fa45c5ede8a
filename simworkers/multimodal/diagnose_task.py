"""The task `diagnose`: from telemetry alone, name what is wrong in a chat, since which turn, and what shows it.

One cause is planted, with the turn in which it sets in; around it stand harmless features of the same look: a second
picture, caches that are nearly full or full of what nobody needs, prefix caches apart by user, prefix caching that is
off on purpose. Capacities look alike for every cause. An instance serves if the run has faults of the planted cause
alone, the first shows in the planted turn, and telemetry alone says so.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.multimodal.capacities import (
    KB,
    PATCH_BYTES_OF_A_TOKEN,
    ROOMY,
    blocks_until,
    enough_blocks,
    enough_pictures,
    just_enough_blocks,
    tokens_of_a_picture,
    too_few_blocks,
    too_few_pictures,
)
from simworkers.multimodal.checks import Checks
from simworkers.multimodal.diagnosis import DECIDING, Cause, Sign, faults, first_fault
from simworkers.multimodal.measure import turn_rows
from simworkers.multimodal.params import BLOCK_SIZE, MultimodalParams
from simworkers.multimodal.scenes import QUIET_CLUSTER, one_of
from simworkers.multimodal.server import Server
from simworkers.multimodal.simulate import play
from simworkers.multimodal.telemetry import Row, describe_run, read_table
from simworkers.rng import Stream
from simworkers.threads import torch_threads

TURNS = 7
DRAWS = 60
CAUSES = tuple(cause for cause in Cause if cause)
# Nearly full: finished requests leave partly filled blocks, which hold nothing that can be found.
FULL = 0.9
Values = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is planted."""

    cause: Cause
    turn: int


def draw_plan(seed: int) -> Plan:
    """All pairs of cause and turn are equally likely, and seeds that follow one another walk through them.

    Nothing can be wrong in turn 1, before there is something to find again.
    """
    pairs = [Plan(cause, turn) for cause in CAUSES for turn in range(2, TURNS + 1)]
    order = Stream(0, "diagnose", "plans").permutation(len(pairs))
    return pairs[int(order[seed % len(pairs)])]


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """The plan is drawn once, so that no cause or turn is rarer because fewer of its scenes serve."""
    plan = draw_plan(seed)
    return draw_until_it_serves(seed, "diagnose", lambda stream: plant(plan, stream, progress), DRAWS)


def plant(plan: Plan, stream: Stream, progress: Progress) -> PreparedInstance | None:
    """A scene with this fault and no other, or None."""
    values = _draw_scene(plan.turn, stream)
    values |= _PLANT[plan.cause](plan.turn, values, stream)
    seed = stream.integer(SEEDS)
    values |= _draw_capacities(plan, values, stream)
    with torch_threads(1):
        is_tight = plan.cause is not Cause.OTHER_TEXT and stream.integer(4) > 0
        if is_tight or plan.cause is Cause.KV_POOL:
            values["kv_blocks"] = _fitted_pool(plan, values, stream, seed, progress)
            if not values["kv_blocks"]:
                return None
        params = MultimodalParams.model_validate(values)
        server, checks = play(params, seed, progress)
    if not _shows(plan, params, server, checks):
        return None
    visible = describe_run(params, server)
    if reason(visible) != (plan.cause, plan.turn):
        return None
    return PreparedInstance(params=params.model_dump(), visible=visible, seed=seed)


def _shows(plan: Plan, params: MultimodalParams, server: Server, checks: Checks) -> bool:
    rows = turn_rows(params, server)
    found = faults(rows)
    if not found or {fault.cause for fault in found} != {plan.cause}:
        return False
    answered_wrongly = checks.wrong_pictures > 0
    is_quiet = server.preemptions == 0
    return (
        first_fault(rows).turn == plan.turn
        and answered_wrongly == (plan.cause is Cause.SHARED_ID)
        and (is_quiet or plan.cause is Cause.KV_POOL)
    )


def _draw_scene(turn: int, stream: Stream) -> Values:
    """Everything that is harmless. Text before the picture fills whole blocks, so that none holds both.

    A second picture often comes in the planted turn, whatever is planted.
    """
    values: Values = {
        "picture": one_of(stream, ("terminal", "dashboard", "photo")),
        "image_width_px": 196 + 28 * stream.integer(5),
        "image_height_px": 168 + 28 * stream.integer(3),
        "max_image_tokens": one_of(stream, (32, 40, 48, 56, 64)),
        "users": 2 + stream.integer(3),
        "turns": TURNS,
        "second_picture_turn": one_of(stream, (0, 0, 0, turn, turn, turn, 2, 3, 4, 5, 6, 7)),
        "system_tokens": BLOCK_SIZE * (3 + stream.integer(6)),
        "question_tokens": 10 + stream.integer(24),
        "answer_tokens": 3 + stream.integer(3),
        "think_s": 4.0,
        "jpeg_quality": 60 + stream.integer(30),
        "client_mbytes_per_s": one_of(stream, (0.5, 2.5, 10.0)),
        "identity": one_of(stream, ("bytes", "pixels", "client_id")),
        "salt": one_of(stream, ("none", "user")),
        "prefix_caching": True,
        "encoder_budget": 128,
        "model": one_of(stream, ("internvl2-26b", "qwen2.5-vl-7b", "qwen2-vl-7b")),
        # Little arithmetic beside its bandwidth: tokens that are computed again show in TTFT, however few they are.
        "gpu": "h20",
    }
    return values | QUIET_CLUSTER


def _draw_capacities(plan: Plan, values: Values, stream: Stream) -> Values:
    """Of every cache, from one distribution for all causes that are not about it.

    An encoder cache that nobody needs, because the prefix cache covers the pictures, is as small as one that is needed
    and too small.
    """
    is_needed = plan.cause in _NEEDS_EMBEDDINGS or not values["prefix_caching"]
    embeds_too_little = plan.cause is Cause.ENCODER_CACHE or (not is_needed and stream.integer(2) == 1)
    pictures = [
        too_few_pictures(plan.turn, values, stream) if is_short else enough_pictures(values, stream)
        for is_short in (embeds_too_little, plan.cause is Cause.PREPROCESSING_CACHE)
    ]
    size = tokens_of_a_picture(values)
    if plan.cause is Cause.OTHER_TEXT:  # a full pool would tell of the other cause
        blocks = int(blocks_until(plan.turn, values) / FULL) + 1 + stream.integer(4)
    else:
        blocks = enough_blocks(values, stream)
    return {
        "kv_blocks": blocks,
        "encoder_cache_embeddings": max(int(pictures[0] * size), values["max_image_tokens"]),
        "preprocess_cache_mb": ceil(pictures[1] * size * PATCH_BYTES_OF_A_TOKEN / KB) / KB,
    }


# What is computed again in these asks for its embeddings once more.
_NEEDS_EMBEDDINGS = (Cause.OTHER_SALT, Cause.OTHER_TEXT, Cause.KV_POOL, Cause.SHARED_ID)


def _perhaps_no_prefix_caching(values: Values, stream: Stream) -> Values:
    return {} if stream.integer(3) else {"prefix_caching": False, "salt": "none"}


def _other_pixels(turn: int, values: Values, stream: Stream) -> Values:
    """A client that sends PNG first sends JPEG from its second send on."""
    client, onset_turn = one_of(stream, (("jpeg", turn), ("png_then_jpeg", turn - 1)))
    identity = one_of(stream, ("bytes", "pixels"))
    planted: Values = {"client": client, "identity": identity, "onset_turn": onset_turn}
    return planted | _perhaps_no_prefix_caching(values, stream)


def _other_file(turn: int, values: Values, stream: Stream) -> Values:
    planted: Values = {"client": "lossless_resave", "identity": "bytes", "onset_turn": turn}
    return planted | _perhaps_no_prefix_caching(values, stream)


def _other_processor(turn: int, values: Values, stream: Stream) -> Values:
    return {"processor_change_turn": turn} | _perhaps_no_prefix_caching(values, stream)


def _other_salt(turn: int, values: Values, stream: Stream) -> Values:
    return {"salt": "turn", "onset_turn": turn}


def _other_text(turn: int, values: Values, stream: Stream) -> Values:
    return {"changing_text": True, "onset_turn": turn, "salt": "none"}


def _shared_id(turn: int, values: Values, stream: Stream) -> Values:
    planted: Values = {"identity": "client_id", "client_id_per": "chat", "second_picture_turn": turn}
    return planted | ({"prefix_caching": False, "salt": "none"} if stream.integer(2) else {})


def _small_kv_pool(turn: int, values: Values, stream: Stream) -> Values:
    """The pool itself is fitted to the chats once they are known."""
    return {}


def _fitted_pool(plan: Plan, values: Values, stream: Stream, seed: int, progress: Progress) -> int:
    """Blocks. If the pool is the cause: the largest that is too small in this turn, not before; 0: none.

    Else one that just holds what is needed, so that a full pool is harmless.
    """
    server, _ = play(MultimodalParams.model_validate(values | ROOMY), seed, progress)
    served = sorted(server.turns, key=lambda sent: sent.first_token_us or 0)
    if plan.cause is Cause.KV_POOL:
        return too_few_blocks(plan.turn, values, served)
    return just_enough_blocks(values, served) + stream.integer(4)


def _small_encoder_cache(turn: int, values: Values, stream: Stream) -> Values:
    """Second pictures make it too small; prefix caching is off, or embeddings were not needed."""
    return _second_pictures_fill(turn, values) | {"prefix_caching": False, "salt": "none"}


def _small_preprocessing_cache(turn: int, values: Values, stream: Stream) -> Values:
    return _second_pictures_fill(turn, values) | _perhaps_no_prefix_caching(values, stream)


def _second_pictures_fill(turn: int, values: Values) -> Values:
    """In turn 2, first pictures may have done so already."""
    return {} if turn == 2 else {"second_picture_turn": turn}


_PLANT: dict[Cause, Callable[[int, Values, Stream], Values]] = {
    Cause.OTHER_PIXELS: _other_pixels,
    Cause.OTHER_FILE: _other_file,
    Cause.OTHER_PROCESSOR: _other_processor,
    Cause.OTHER_SALT: _other_salt,
    Cause.OTHER_TEXT: _other_text,
    Cause.SHARED_ID: _shared_id,
    Cause.KV_POOL: _small_kv_pool,
    Cause.ENCODER_CACHE: _small_encoder_cache,
    Cause.PREPROCESSING_CACHE: _small_preprocessing_cache,
}


@dataclass(frozen=True)
class Look:
    """A turn beside the same user's turn before, in telemetry. Each picture with its row of the turn before, if any."""

    now: Row
    before: Row
    pictures: list[tuple[Row, Row | None]]
    prefix_caching: bool

    @property
    def lacks_kv(self) -> bool:
        """Fewer full blocks were found than the turn before left behind; its last output has no KV."""
        left = self.before["prompt_tokens"] + self.before["output_tokens"] - 1
        grown = sum(one["tokens"] - old["tokens"] for one, old in self.known)
        return bool(
            self.prefix_caching and self.now["cached_tokens"] < (left + grown) // BLOCK_SIZE * BLOCK_SIZE
        )

    @property
    def known(self) -> list[tuple[Row, Row]]:
        return [(one, old) for one, old in self.pictures if old is not None]

    def again(self, stage: str) -> bool:
        return any(one[stage] for one, _ in self.known)

    def differs(self, field: str) -> bool:
        return any(one[field] != old[field] for one, old in self.known)

    @property
    def works_again(self) -> bool:
        return self.lacks_kv or self.again("encoded") or self.again("preprocessed")

    @property
    def shares_an_identifier(self) -> bool:
        names = {(one["identifier"], one["pixels"]) for one, _ in self.pictures}
        return len({identifier for identifier, _ in names}) < len(names)


def looks(visible: Mapping[str, Any]) -> list[Look]:
    """By turn, then in the order in which they were sent."""
    turns = {(row["user"], row["turn"]): row for row in read_table(visible["turns"])}
    pictures = {(row["user"], row["turn"], row["picture"]): row for row in read_table(visible["pictures"])}
    return [
        Look(
            row,
            turns[user, turn - 1],
            [
                (one, pictures.get((user, turn - 1, index)))
                for (whose, when, index), one in pictures.items()
                if (whose, when) == (user, turn)
            ],
            visible["prefix_caching"],
        )
        for (user, turn), row in sorted(turns.items(), key=lambda item: item[0][1])
        if turn > 1
    ]


def reason(visible: Mapping[str, Any]) -> tuple[Cause, int]:
    """From telemetry to (cause, turn): the first turn with needless work or a name for two; then what differs there."""
    for look in looks(visible):
        turn = look.now["turn"]
        if look.shares_an_identifier:
            return Cause.SHARED_ID, turn
        if look.works_again:
            return _tell_apart(look, visible), turn
    return Cause.NONE, 0


def _tell_apart(look: Look, visible: Mapping[str, Any]) -> Cause:
    """From what the client sends, over what the server makes of it, to what its caches could hold."""
    for field, cause in (
        ("pixels", Cause.OTHER_PIXELS),
        ("file", Cause.OTHER_FILE),
        ("tokens", Cause.OTHER_PROCESSOR),
    ):
        if look.differs(field):
            return cause
    if look.lacks_kv:
        if look.now["namespace"] != look.before["namespace"]:
            return Cause.OTHER_SALT
        is_full = look.now["kv_blocks_used"] >= FULL * visible["kv_blocks_capacity"]
        return Cause.KV_POOL if is_full else Cause.OTHER_TEXT
    return Cause.ENCODER_CACHE if look.again("encoded") else Cause.PREPROCESSING_CACHE


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """Each from the visible part alone.

    naive: blames the memory for KV, from the second turn on. misconception: finds the turn, and blames the cache of the
    last stage that works again. expert: finds the turn, and looks for what differs there, from the client on.
    """
    cause, turn = reason(prepared.visible)
    blamed = next((_blame(look) for look in looks(prepared.visible) if look.works_again), Cause.KV_POOL)
    found = {
        "naive": _say(Cause.KV_POOL, 2),
        "misconception": _say(blamed, turn),
        "expert": _say(cause, turn),
    }
    return {who: Submission(params={}, prediction=told) for who, told in found.items()}


def _blame(look: Look) -> Cause:
    if look.lacks_kv:
        return Cause.KV_POOL
    return Cause.ENCODER_CACHE if look.again("encoded") else Cause.PREPROCESSING_CACHE


def _say(cause: Cause, turn: int, sign: Sign | None = None) -> dict[str, int]:
    return {"cause": cause.value, "turn": turn, "sign": (sign or DECIDING[cause]).value}
