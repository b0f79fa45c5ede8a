"""How long chats become and how much work a run is, from plain parameters. Standard library alone."""

from typing import Any

OWN_PIXELS = 4 * 2**20  # most that a picture of the learner's own may have
WORK_FIELDS = (
    "picture",
    "image_width_px",
    "image_height_px",
    "users",
    "turns",
    "second_picture_turn",
    "system_tokens",
    "question_tokens",
    "answer_tokens",
    "max_image_tokens",
)
MAX_WORK_US = 75_000_000  # of one common core; docs/labs/multimodal-cache.md has the measurements


def pictures_in_turn(values: dict[str, Any], turn: int) -> int:
    """Pictures that the chat holds in this turn."""
    second = values["second_picture_turn"]
    return 2 if second and turn >= second else 1


def longest_chat(values: dict[str, Any]) -> int:
    """Tokens of the last turn with its answer, at most."""
    turns = values["turns"]
    texts = values["system_tokens"] + turns * (values["question_tokens"] + values["answer_tokens"])
    return int(texts + pictures_in_turn(values, turns) * values["max_image_tokens"])


def expected_us(values: dict[str, Any]) -> int:
    """Work of a run if no cache ever hits, replays included, in µs of a common core.

    Measured by `python -m tests.bench.bench_multimodal`: a token costs more the longer its context, an image by the
    square of its patches, a file by its pixels at every send.
    """
    turns, answer = values["turns"], values["answer_tokens"]
    lengths = [longest_chat(values | {"turns": turn}) for turn in range(1, turns + 1)]
    lengths.append(lengths[-1])  # the replay
    sends = sum(pictures_in_turn(values, turn) for turn in range(1, turns + 1))
    pixels = (
        OWN_PIXELS if values["picture"] == "own" else values["image_width_px"] * values["image_height_px"]
    )
    tokens_us = sum(length * (100 + length / 10) + answer * (900 + length / 2) for length in lengths)
    images_us = (sends + 1) * (values["max_image_tokens"] ** 2 / 2 + pixels / 16)
    return int(values["users"] * (tokens_us + images_us + pixels / 6))
