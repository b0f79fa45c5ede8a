"""The picture's way through the stages, one turn at a time: what was found is lit, what was computed says why."""

from typing import Any

from simworkers.drawing import GREEN, GREY, ORANGE, SKY, colours
from simworkers.multimodal.figure_parts import Rows, Spec, headline, tooltip

FOUND, NOT_NEEDED, FIRST, AGAIN = "found in a cache", "not needed", "computed: new", "computed again"
STATES = {FOUND: GREEN, NOT_NEEDED: SKY, FIRST: GREY, AGAIN: ORANGE}

# In two lines, so that a cell on a phone holds them.
REASONS = {
    "hit": "found",
    "not_needed": "not\nneeded",
    "first": "first\ntime",
    "caching_off": "caching\noff",
    "evicted": "was\nevicted",
    "bytes_changed": "bytes\nchanged",
    "pixels_changed": "pixels\nchanged",
    "processor_changed": "processor\nchanged",
    "text_changed": "text\nchanged",
    "salt_changed": "salt\nchanged",
    "id_changed": "id\nchanged",
}
STAGES = ("upload", "preprocess", "encode")  # each a column; the KV of the prompt is a fourth, twice as wide
GAP = 0.12  # of a column, for the arrow to the next one
KV_LEFT, RIGHT = 3, 5
CELL = 0.84  # of a row
WORDS = {
    "type": "text",
    "fontSize": 11,
    "lineBreak": "\n",
    "lineHeight": 13,
    "dy": {"expr": "indexof(datum.text, '\\n') < 0 ? 0 : -6.5"},
}
CELL_WORDS = WORDS | {"color": "black"}  # on every colour of the palette but the dark blue


def draw_image_way(metrics: dict[str, Any], params: dict[str, Any]) -> tuple[Spec, Rows]:
    """A row a picture, a column a stage; a slider walks the turns."""
    turns = sorted(metrics["turns"], key=lambda turn: (turn["turn"], turn["user"]))
    table = _table(turns)
    last = max(row["turn"] for row in table)
    pictures = max(row["picture"] for row in table) + 1
    rows = (max(row["user"] for row in table) + 1) * pictures
    slider: Spec = {"name": "turn", "value": min(2, last)}
    if last > 1:
        slider["bind"] = {"input": "range", "min": 1, "max": last, "step": 1, "name": "Turn "}
    spec = {
        "title": headline(
            {"expr": f"{_headlines(table, last)!r}[turn - 1]"},
            "wide bar: KV of the whole prompt; green was found, orange is computed again, grey is new",
        ),
        "height": rows * (52 if rows <= 6 else 42),
        "params": [slider],
        "transform": [{"filter": "datum.turn == turn"}],
        "layer": [
            *_stage_layers(table, pictures),
            *_kv_layers(table, pictures),
        ],
        "encoding": {"x": _columns(), "y": _rows(rows, pictures)},
    }
    return spec, table


def _table(turns: Rows) -> Rows:
    """One row a turn, user and picture; the KV columns speak of the turn's whole prompt."""
    before: dict[tuple[int, int], dict[str, Any]] = {}
    table = []
    for turn in turns:
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


def _headlines(table: Rows, last: int) -> list[str]:
    """What one sees in each turn."""
    lines = []
    for number in range(1, last + 1):
        shown = [row for row in table if row["turn"] == number]
        encoded = sum(row["encode"] not in ("hit", "not_needed") for row in shown)
        prompts = {row["user"]: row for row in shown}.values()
        found = sum(row["kv_found_tokens"] for row in prompts) / sum(row["prompt_tokens"] for row in prompts)
        verb = "picture encoded" if len(shown) == 1 else "pictures encoded"
        lines.append(f"Turn {number} of {last}: {encoded} of {len(shown)} {verb}, {found:.0%} of KV found")
    return lines


def _stage_layers(table: Rows, pictures: int) -> list[Spec]:
    """Cells of the first three columns, their text, and the arrows that lead on."""
    cells = {
        "values": [
            {
                "turn": row["turn"],
                "row": row["user"] * pictures + row["picture"],
                "column": column,
                "what": f"{row['file_kb']:,.0f} kB\n{row['sent']}" if stage == "upload" else row[stage],
            }
            for row in table
            for column, stage in enumerate(STAGES)
        ]
    }
    place = [
        {"calculate": f"datum.column + {1 - GAP}", "as": "right"},
        {"calculate": f"datum.column + {(1 - GAP) / 2}", "as": "centre"},
        {"calculate": f"datum.row + {(1 - CELL) / 2}", "as": "top"},
        {"calculate": f"datum.row + {(1 + CELL) / 2}", "as": "bottom"},
        {"calculate": "datum.row + 0.5", "as": "middle"},
        {"calculate": f"({REASONS!r})[datum.what] || datum.what", "as": "text"},
        {"calculate": f"{list(STAGES)!r}[datum.column]", "as": "stage"},
        {
            "calculate": f"({_state_of_reason()!r})[datum.what] || '{AGAIN}'",
            "as": "state",
        },
    ]
    turn = [{"filter": "datum.turn == turn"}]
    box = {
        "x": {"field": "column"},
        "x2": {"field": "right"},
        "y": {"field": "top"},
        "y2": {"field": "bottom"},
    }
    words = {"x": {"field": "centre"}, "y": {"field": "middle"}, "text": {"field": "text"}}
    said = {"tooltip": tooltip(stage="stage", text="")}
    return [
        {
            "data": cells,
            "transform": [*turn, *place, {"filter": "datum.column > 0"}],
            "mark": {"type": "rect", "cornerRadius": 5},
            "encoding": box | said | {"color": _state_colour()},
        },
        {
            "data": cells,
            "transform": [*turn, *place, {"filter": "datum.column > 0"}],
            "mark": CELL_WORDS,
            "encoding": words | said,
        },
        {
            # Nothing spares an upload, so it is not one of the colours.
            "data": cells,
            "transform": [*turn, *place, {"filter": "datum.column == 0"}],
            "mark": WORDS,
            "encoding": words,
        },
        {
            "data": cells,
            "transform": [*turn, *place, {"calculate": f"datum.column + {1 - GAP / 2}", "as": "gap"}],
            "mark": {
                "type": "point",
                "shape": "triangle-right",
                "filled": True,
                "size": 45,
                "color": GREY,
                "opacity": 1,
            },
            "encoding": {"x": {"field": "gap"}, "y": {"field": "middle"}},
        },
    ]


def _kv_layers(table: Rows, pictures: int) -> list[Spec]:
    """A bar a user, as tall as all the pictures of the turn: found, lost, new."""
    prompts: dict[tuple[int, int], dict[str, Any]] = {}
    for row in table:
        key = row["turn"], row["user"]
        found, lost, whole = row["kv_found_tokens"], row["kv_lost_tokens"], row["prompt_tokens"]
        prompts[key] = {
            "turn": row["turn"],
            "user": row["user"],
            "row": row["user"] * pictures,
            "tall": row["picture"] + 1,
            FOUND: found,
            AGAIN: lost,
            FIRST: whole - found - lost,
            "text": f"{found:,} of {whole:,} found" + (f"\n{_why(row['prefix'])}" if lost else ""),
        }
    data = {"values": list(prompts.values())}
    place = [
        {"filter": "datum.turn == turn"},
        {"calculate": f"datum.row + {(1 - CELL) / 2}", "as": "top"},
        {"calculate": f"datum.row + datum.tall - {(1 - CELL) / 2}", "as": "bottom"},
        {"calculate": "datum.row + datum.tall / 2", "as": "middle"},
    ]
    parts = [FOUND, AGAIN, FIRST]
    bar = {
        "data": data,
        "transform": [
            *place,
            {"fold": parts, "as": ["state", "tokens"]},
            {"calculate": f"indexof({parts!r}, datum.state)", "as": "part"},
            {
                "stack": "tokens",
                "groupby": ["row"],
                "sort": [{"field": "part"}],
                "offset": "normalize",
                "as": ["from", "to"],
            },
            {"filter": "datum.tokens > 0"},
            {"calculate": f"{KV_LEFT} + {RIGHT - KV_LEFT} * datum.from", "as": "left"},
            {"calculate": f"{KV_LEFT} + {RIGHT - KV_LEFT} * datum.to", "as": "right"},
        ],
        "mark": {"type": "rect"},
        "encoding": {
            "x": {"field": "left"},
            "x2": {"field": "right"},
            "y": {"field": "top"},
            "y2": {"field": "bottom"},
            "color": _state_colour(),
            "tooltip": tooltip(user="user", state="KV", tokens="tokens"),
        },
    }
    words = {
        "data": data,
        "transform": place,
        "mark": CELL_WORDS,
        "encoding": {
            "x": {"datum": (KV_LEFT + RIGHT) / 2},
            "y": {"field": "middle"},
            "text": {"field": "text"},
        },
    }
    return [bar, words]


def _why(reason: str) -> str:
    return REASONS[reason].replace("\n", " ")


def _state_of_reason() -> dict[str, str]:
    return {"hit": FOUND, "not_needed": NOT_NEEDED, "first": FIRST}


def _state_colour() -> Spec:
    return {"field": "state", "type": "nominal", "scale": colours(STATES), "legend": {"columns": 4}}


def _columns() -> Spec:
    centres = [n + (1 - GAP) / 2 for n in range(len(STAGES))] + [(KV_LEFT + RIGHT) / 2]
    names = [*STAGES, "prompt's KV"]
    return {
        "type": "quantitative",
        "title": None,
        "scale": {"domain": [0, RIGHT], "nice": False, "zero": False},
        "axis": {
            "orient": "top",
            "values": centres,
            "labelExpr": f"{names!r}[datum.value > 3 ? 3 : floor(datum.value)]",
            "grid": False,
            "ticks": False,
            "domain": False,
            "labelOverlap": False,
            "labelFlush": False,
        },
    }


def _rows(rows: int, pictures: int) -> Spec:
    names = [f"user {n // pictures}" if n % pictures == 0 else "2nd picture" for n in range(rows)]
    return {
        "type": "quantitative",
        "title": None,
        "scale": {"domain": [0, rows], "reverse": True, "nice": False, "zero": False},
        "axis": {
            "values": [n + 0.5 for n in range(rows)],
            "labelExpr": f"{names!r}[floor(datum.value)]",
            "grid": False,
            "ticks": False,
            "domain": False,
            "labelOverlap": False,
        },
    }
