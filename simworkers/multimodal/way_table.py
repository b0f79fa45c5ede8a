"""What every stage did with each picture of each turn, as rows of a table."""

from typing import Any

from simworkers.drawing import Rows


def tabulate_way(turns: Rows) -> Rows:
    """One row a turn, user and picture, in this order; the KV columns speak of the turn's whole prompt."""
    before: dict[tuple[int, int], dict[str, Any]] = {}
    table = []
    for turn in sorted(turns, key=lambda turn: (turn["turn"], turn["user"])):
        for picture in turn["pictures"]:
            place = turn["user"], picture["picture"]
            table.append(
                {
                    "turn": turn["turn"],
                    "user": turn["user"],
                    "picture": picture["picture"],
                    "file_kb": round(picture["file_bytes"] / 1000, 1),
                    "sent": _what_was_sent(picture, before.get(place)),
                    "preprocess": picture["preprocess"],
                    "encode": picture["encode"],
                    "image_tokens": picture["tokens"],
                    "prefix": turn["prefix"],
                    "kv_found_tokens": turn["cached_tokens"],
                    "kv_lost_tokens": turn["reusable_tokens"] - turn["cached_tokens"],
                    "prompt_tokens": turn["prompt_tokens"],
                }
            )
            before[place] = picture
    return table


def _what_was_sent(picture: dict[str, Any], before: dict[str, Any] | None) -> str:
    """The file beside the one that the turn before sent."""
    if before is None:
        return "new file"
    if picture["file"] == before["file"]:
        return "same file"
    if picture["pixels"] == before["pixels"]:
        return "same pixels"
    if picture["changed_share"] is None:
        return "other size"
    return f"{_percent(picture['changed_share'])} differs"


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f}%" if percent >= 9.5 else f"{percent:.1f}%" if percent >= 0.05 else "<0.1%"
