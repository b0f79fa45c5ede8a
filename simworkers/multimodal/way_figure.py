"""The picture's way through the stages, one turn at a time: what was found is lit, what was computed says why."""

from typing import Any

from simworkers.drawing import GREEN, GREY, ORANGE, SKY, Rows, Spec, colours, headline, tooltip
from simworkers.multimodal.way_table import tabulate_way

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
NOT_YET = "not yet\nsent"
STAGES = ("upload", "preprocess", "encode")  # each a column; the KV of the prompt is a fourth, twice as wide
GAP = 0.12  # of a column, for the arrow to the next one
KV_LEFT, RIGHT = 3, 5
CELL = 0.84  # of a row
NARROW = "width < 400"  # a phone; width is a signal of Vega's, the plot's width in px
THIS_TURN = {"filter": "datum.turn == turn"}
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
    table = tabulate_way(metrics["turns"])
    last = max(row["turn"] for row in table)
    pictures = max(row["picture"] for row in table) + 1
    rows = (max(row["user"] for row in table) + 1) * pictures
    slider: Spec = {"name": "turn", "value": min(2, last)}
    if last > 1:
        slider["bind"] = {"input": "range", "min": 1, "max": last, "step": 1, "name": "Turn "}
    lines = _headlines(table, last)
    spec = {
        "title": headline(
            {"expr": f"{NARROW} ? {lines!r}[turn - 1] : join({lines!r}[turn - 1], ' ')"},
            "wide bar: KV of the whole prompt; green was found, orange is computed again, grey is new",
        ),
        "height": rows * (52 if rows <= 6 else 42),
        "params": [slider],
        "layer": [_stages(table, pictures), _kv(table, pictures)],
        "encoding": {"x": _columns(), "y": _rows(rows, pictures)},
    }
    return spec, table


def _headlines(table: Rows, last: int) -> list[list[str]]:
    """What one sees in each turn, in two lines for where it is narrow."""
    lines = []
    for number in range(1, last + 1):
        shown = [row for row in table if row["turn"] == number]
        encoded = sum(row["encode"] not in ("hit", "not_needed") for row in shown)
        prompts = {row["user"]: row for row in shown}.values()
        found = sum(row["kv_found_tokens"] for row in prompts) / sum(row["prompt_tokens"] for row in prompts)
        verb = "picture encoded" if len(shown) == 1 else "pictures encoded"
        lines.append(
            [f"Turn {number} of {last}: {encoded} of {len(shown)} {verb},", f"{found:.0%} of KV found"]
        )
    return lines


def _stages(table: Rows, pictures: int) -> Spec:
    """Cells of the first three columns, their words, and the arrows that lead on."""
    words = {"x": {"field": "centre"}, "y": {"field": "middle"}, "text": {"field": "text"}}
    said = {"tooltip": tooltip(stage="stage", text="what was found")}
    computed = [{"filter": "datum.column > 0"}]
    arrow = {
        "type": "point",
        "shape": "triangle-right",
        "filled": True,
        "size": 45,
        "color": GREY,
        "opacity": 1,
    }
    box = {
        "x": {"field": "column"},
        "x2": {"field": "right"},
        "y": {"field": "top"},
        "y2": {"field": "bottom"},
        "color": _state_colour(),
    }
    return {
        "data": {"values": _cells(table, pictures)},
        "transform": [THIS_TURN, *_cell_places()],
        "layer": [
            {"transform": computed, "mark": {"type": "rect", "cornerRadius": 5}, "encoding": box | said},
            {"transform": computed, "mark": CELL_WORDS, "encoding": words | said},
            # Nothing spares an upload, so it has none of the colours.
            {"transform": [{"filter": "datum.column == 0"}], "mark": WORDS, "encoding": words},
            {
                "transform": [{"filter": f"datum.what != {NOT_YET!r}"}],
                "mark": arrow,
                "encoding": {"x": {"field": "gap"}, "y": {"field": "middle"}},
            },
        ],
    }


def _cells(table: Rows, pictures: int) -> Rows:
    """What each stage did with each picture; where a chat will hold a picture later, only that."""
    cells = []
    places = set()
    for row in table:
        place = row["user"] * pictures + row["picture"]
        places.add((row["turn"], place))
        sent = f"{row['file_kb']:,.0f} kB\n{row['sent']}"
        for column, what in enumerate((sent, row["preprocess"], row["encode"])):
            cells.append({"turn": row["turn"], "row": place, "column": column, "what": what})
    missing = {(turn, place) for turn, _ in places for _, place in places} - places
    return cells + [
        {"turn": turn, "row": place, "column": 0, "what": NOT_YET} for turn, place in sorted(missing)
    ]


def _cell_places() -> Rows:
    """From a cell's row and column to its corners, its words and its colour."""
    states = {"hit": FOUND, "not_needed": NOT_NEEDED, "first": FIRST}
    expressions = {
        "right": f"datum.column + {1 - GAP}",
        "centre": f"datum.column + {(1 - GAP) / 2}",
        "gap": f"datum.column + {1 - GAP / 2}",
        "top": f"datum.row + {(1 - CELL) / 2}",
        "bottom": f"datum.row + {(1 + CELL) / 2}",
        "middle": "datum.row + 0.5",
        "text": f"({REASONS!r})[datum.what] || datum.what",
        "stage": f"{list(STAGES)!r}[datum.column]",
        "state": f"({states!r})[datum.what] || {AGAIN!r}",
    }
    return [{"calculate": expression, "as": name} for name, expression in expressions.items()]


def _kv(table: Rows, pictures: int) -> Spec:
    """A bar a user, as tall as all the pictures of the turn."""
    words = {
        "mark": CELL_WORDS,
        "encoding": {
            "x": {"datum": (KV_LEFT + RIGHT) / 2},
            "y": {"field": "middle"},
            "text": {"field": "text"},
        },
    }
    return {
        "data": {"values": _prompts(table, pictures)},
        "transform": [
            THIS_TURN,
            {"calculate": f"datum.row + {(1 - CELL) / 2}", "as": "top"},
            {"calculate": f"datum.row + datum.tall - {(1 - CELL) / 2}", "as": "bottom"},
            {"calculate": "datum.row + datum.tall / 2", "as": "middle"},
            {"calculate": f"datum.share + ({NARROW} ? '' : ' found') + datum.why", "as": "text"},
        ],
        "layer": [_kv_bar(), words],
    }


def _kv_bar() -> Spec:
    """Found, computed again, new: parts of one whole."""
    parts = [FOUND, AGAIN, FIRST]
    stack = {
        "stack": "tokens",
        "groupby": ["row"],
        "sort": [{"field": "part"}],
        "offset": "normalize",
        "as": ["from", "to"],
    }
    return {
        "transform": [
            {"fold": parts, "as": ["state", "tokens"]},
            {"calculate": f"indexof({parts!r}, datum.state)", "as": "part"},
            stack,
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


def _prompts(table: Rows, pictures: int) -> Rows:
    """The prompt's tokens of each turn and user by what became of their KV."""
    prompts: dict[tuple[int, int], dict[str, Any]] = {}
    for row in table:
        found, lost, whole = row["kv_found_tokens"], row["kv_lost_tokens"], row["prompt_tokens"]
        prompts[row["turn"], row["user"]] = {
            "turn": row["turn"],
            "user": row["user"],
            "row": row["user"] * pictures,
            "tall": row["picture"] + 1,
            FOUND: found,
            AGAIN: lost,
            FIRST: whole - found - lost,
            "share": f"{found:,} of {whole:,}",
            "why": f"\n{_why(row['prefix'])}" if lost else "",
        }
    return list(prompts.values())


def _why(reason: str) -> str:
    return REASONS[reason].replace("\n", " ")


def _state_colour() -> Spec:
    return {"field": "state", "type": "nominal", "scale": colours(STATES), "legend": {"columns": 2}}


def _columns() -> Spec:
    centres = [n + (1 - GAP) / 2 for n in range(len(STAGES))] + [(KV_LEFT + RIGHT) / 2]
    names = [*STAGES, "prompt's KV"]
    brief = [name.replace("preprocess", "preproc.") for name in names]
    return {
        "type": "quantitative",
        "title": None,
        "scale": {"domain": [0, RIGHT], "nice": False, "zero": False},
        "axis": {
            "orient": "top",
            "values": centres,
            "labelExpr": f"({NARROW} ? {brief!r} : {names!r})[min(floor(datum.value), {len(STAGES)})]",
            "grid": False,
            "ticks": False,
            "domain": False,
            "labelOverlap": False,
            "labelFlush": False,
            "labelFontSize": 11,
        },
    }


def _rows(rows: int, pictures: int) -> Spec:
    names = [f"user {n // pictures}" if n % pictures == 0 else "2nd picture" for n in range(rows)]
    brief = [name.removesuffix(" picture") for name in names]
    return {
        "type": "quantitative",
        "title": None,
        "scale": {"domain": [0, rows], "reverse": True, "nice": False, "zero": False},
        "axis": {
            "values": [n + 0.5 for n in range(rows)],
            "labelExpr": f"({NARROW} ? {brief!r} : {names!r})[floor(datum.value)]",
            "grid": False,
            "ticks": False,
            "domain": False,
            "labelOverlap": False,
        },
    }
