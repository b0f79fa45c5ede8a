"""What a session costs under each policy (a million output tokens, where there is none), and what GPUs did for it."""

from typing import Any

from simworkers.agents.measure import LEAST_COMPLETED
from simworkers.agents.pictures.figure_parts import named_ticks, percent, words
from simworkers.drawing import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    Rows,
    Spec,
    colours,
    headline,
    tooltip,
)

DOLLARS, OWN_DOLLARS = "other policies", "this run's policy"
# Names of the report's gpu_seconds → as drawn.
WORK = {"HBM": "HBM bandwidth", "FLOPs": "FLOPs", "links": "links", "host": "host time"}
FILLS = {
    OWN_DOLLARS: BLUE,
    DOLLARS: GREY,
    "HBM bandwidth": SKY,
    "FLOPs": ORANGE,
    "links": GREEN,
    "host time": VERMILION,
}
IDLE = "idle"
ROW = 32  # px
LONGEST = 0.6  # bar, of the width: its price stands behind it, on a phone too
HATCH = 0.018  # from line to line, of the width
LEAST_WRITTEN = 0.07  # a narrower part has its share in the tooltip and the table


def draw_cost(metrics: dict[str, Any], params: dict[str, Any]) -> tuple[Spec, Rows]:
    """A bar a policy, the cheapest first; below them one bar of all GPU time, idle time hatched. A price alone has no
    bar, whose length would say nothing: the title says it."""
    costs = _costs(metrics, params)
    times = _times(metrics["gpu_seconds"])
    compared = costs if metrics["policies"] else []
    top = len(compared) + 1.4 if compared else 0.9
    bars = _bars(compared, words(params["policy"]))
    parts = _parts(times)
    ticks = [(row["row"] + 0.4, row["policy"]) for row in compared] + [(0.4, "GPU time")]
    spec = {
        "title": _headline(costs, metrics, params),
        "height": round(ROW * (top + 0.1)),
        "layer": [
            _boxes([*bars, *(row for row in parts if row["part"] != IDLE)]),
            *_hatched([row for row in parts if row["part"] == IDLE]),
            _prices(bars),
            _written([row for row in parts if row["to"] - row["from"] >= LEAST_WRITTEN]),
        ],
        "encoding": {
            "x": {"type": "quantitative", "title": None, "scale": {"domain": [0, 1]}, "axis": None},
            "y": {
                "type": "quantitative",
                "title": None,
                "scale": {"domain": [-0.1, top], "nice": False},
                "axis": named_ticks(ticks, is_line=False),
            },
        },
    }
    return spec, _table(costs, times, is_by_session=has_sessions(metrics))


def _table(costs: Rows, times: Rows, *, is_by_session: bool) -> Rows:
    """A row a number: prices of each policy, then parts of the run's GPU time."""
    prices = {"price of a session": "usd"} if is_by_session else {}
    prices |= {"price of a million output tokens": "usd_per_million"}
    rows = [
        {"quantity": quantity, "of": row["policy"], "value": row[field], "unit": "USD"}
        for quantity, field in prices.items()
        for row in costs
        if row["has_outputs"]
    ]
    return rows + [
        {
            "quantity": "share of this run's GPU time",
            "of": row["part"],
            "value": round(100 * (row["to"] - row["from"]), 3),
            "unit": "%",
        }
        for row in times
    ]


def _bars(costs: Rows, own: str) -> Rows:
    """Boxes of the policies' prices."""
    top = max((row["usd"] for row in costs if row["has_outputs"]), default=0) or 1
    return [
        {
            "bottom": row["row"],
            "top": row["row"] + 0.8,
            "from": 0.0,
            "to": row["usd"] / top * LONGEST if row["has_outputs"] else 0.0,
            "kind": OWN_DOLLARS if row["policy"] == own else DOLLARS,
            "what": row["policy"],
            "says": row["says"],
            "usd_per_million": row["usd_per_million"],
        }
        for row in costs
    ]


def _parts(times: Rows) -> Rows:
    """Boxes of the bar of GPU time."""
    return [
        {
            "bottom": 0,
            "top": 0.8,
            "kind": row["part"],
            "what": row["part"],
            **row,
            "says": percent(row["to"] - row["from"]),
        }
        for row in times
    ]


def _costs(metrics: dict[str, Any], params: dict[str, Any]) -> Rows:
    """The cheapest first, at the top; policies under which no request completed last."""
    prices = ("usd_per_session", "usd_per_million", "tokens_per_gpu_s")
    found = metrics["policies"] or [{name: metrics[name] for name in prices} | {"policy": params["policy"]}]
    price = "usd_per_session" if has_sessions(metrics) else "usd_per_million"
    ordered = sorted(found, key=lambda row: (not row["tokens_per_gpu_s"], row[price], row["policy"]))
    return [
        {
            "policy": words(row["policy"]),
            "usd": round(row[price], 4),
            "usd_per_million": round(row["usd_per_million"], 4),
            "has_outputs": bool(
                row["tokens_per_gpu_s"]
            ),  # a price of 0 may be that of a GPU that costs nothing
            "says": f"{row[price]:,.2f} USD" if row["tokens_per_gpu_s"] else "no output",
            "row": len(ordered) - place + 0.5,
        }
        for place, row in enumerate(ordered)
    ]


def has_sessions(metrics: dict[str, Any]) -> bool:
    """Rows of requests have none, and so no price of one."""
    return bool(metrics["usd_per_session"])


def _times(gpu_seconds: dict[str, float]) -> Rows:
    """Parts of the bar of GPU time, one beside the other."""
    whole, start, found = sum(gpu_seconds.values()), 0.0, []
    for name in (*WORK, IDLE):
        share = gpu_seconds.get(name, 0.0) / whole if whole else 0.0
        if share:
            found.append(
                {"part": WORK.get(name, name), "from": round(start, 5), "to": round(start + share, 5)}
            )
        start += share
    return found


def _boxes(rows: Rows) -> Spec:
    return {
        "data": {"values": rows},
        "mark": {"type": "rect"},
        "encoding": {
            "x": {"field": "from"},
            "x2": {"field": "to"},
            "y": {"field": "bottom"},
            "y2": {"field": "top"},
            "color": {
                "field": "kind",
                "type": "nominal",
                "scale": colours(FILLS),
                "legend": {"values": list(WORK.values())},
            },
            "tooltip": tooltip(what="what", says="how much"),
        },
    }


def _hatched(idle: Rows) -> list[Spec]:
    """An outline and slanting lines: time that is paid and does nothing has no colour."""
    lines: Rows = []
    for row in idle:
        at = row["from"]
        while at + HATCH <= row["to"]:
            lines.append({"from": round(at, 5), "to": round(at + HATCH, 5), "bottom": 0, "top": 0.8})
            at += HATCH
    slanting = {
        "data": {"values": lines},
        "mark": {"type": "rule", "strokeWidth": 0.75, "opacity": 0.7, "aria": False},
        "encoding": {
            "x": {"field": "from"},
            "x2": {"field": "to"},
            "y": {"field": "bottom"},
            "y2": {"field": "top"},
        },
    }
    outline = _boxes(idle) | {
        "mark": {"type": "rect", "fillOpacity": 0, "stroke": "#767676", "strokeWidth": 1, "fill": "white"}
    }
    del outline["encoding"]["color"]
    return [slanting, outline]


def _prices(boxes: Rows) -> Spec:
    return {
        "data": {"values": boxes},
        "transform": [{"calculate": "datum.bottom + 0.4", "as": "middle"}],
        "mark": {"type": "text", "align": "left", "dx": 5, "aria": False},
        "encoding": {"x": {"field": "to"}, "y": {"field": "middle"}, "text": {"field": "says"}},
    }


def _written(rows: Rows) -> Spec:
    return {
        "data": {"values": rows},
        "transform": [{"calculate": "(datum.from + datum.to) / 2", "as": "centre"}],
        "mark": {"type": "text", "aria": False, "dy": 22},
        "encoding": {"x": {"field": "centre"}, "y": {"datum": 0.4}, "text": {"field": "says"}},
    }


def _headline(costs: Rows, metrics: dict[str, Any], params: dict[str, Any]) -> Spec:
    below = _below(metrics, params)
    priced = [row for row in costs if row["has_outputs"]]
    if not priced:
        return headline("No output came, so no price", below)
    if not params["gpu_hour_usd"]:
        return headline("GPUs cost nothing here, and so does all that they serve", below)
    cheapest, dearest = priced[0], priced[-1]
    cost = "A session costs" if has_sessions(metrics) else "A million output tokens cost"
    if cheapest["says"] == dearest["says"]:
        return headline(f"{cost} {cheapest['says']}", below)
    return headline(
        f"{cost} {cheapest['says']} ({cheapest['policy']}) to {dearest['says']} ({dearest['policy']})", below
    )


def _below(metrics: dict[str, Any], params: dict[str, Any]) -> str:
    """How the run's own price comes about."""
    idle = metrics["gpu_seconds"].get(IDLE, 0.0) / (sum(metrics["gpu_seconds"].values()) or 1)
    sessions = f"{metrics['sessions']} session{'s' * (metrics['sessions'] > 1)}"
    if not has_sessions(metrics):
        sessions = f"{metrics['output_tokens'] / 1e6:.3g} million output tokens"
    return (
        f"{metrics['gpus']} GPUs × {metrics['window_s']:,.0f} s × {params['gpu_hour_usd']:g} USD an hour ÷ {sessions}, "
        f"{percent(idle)} of it idle (hatched)"
    )


def price_of_tokens(metrics: dict[str, Any]) -> str:
    """For the caption: what a million of the run's output tokens cost and bring with them, and what was lost."""
    said = ""
    if metrics["usd_per_million"]:
        inputs = metrics["input_tokens"] / metrics["output_tokens"]
        said = (
            f"A million of this run's output tokens, each with {inputs:,.0f} input tokens, cost "
            f"{metrics['usd_per_million']:,.2f} USD. "
        )
    if metrics["completed_share"] < LEAST_COMPLETED:
        said += f"Only {percent(metrics['completed_share'])} of its requests completed; what was lost is paid for, too."
    return said.rstrip()
