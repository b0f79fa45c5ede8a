"""Pictures over the modelled time: which replica got uncached prompts, and where KV lay."""

from collections import Counter
from typing import Any

from simworkers.agents.pictures.figure_parts import (
    Band,
    Label,
    clock,
    incident_rules,
    incident_words,
    named_ticks,
    percent,
    round_up,
    short,
)
from simworkers.drawing import BLUE, GREEN, ORANGE, SKY, Rows, Spec, colours, headline, tooltip

FREE_ROOM = 0.22  # of a replica's row, above the top of its axis
FEW = 6  # replicas whose rows have room for two lines
HELD, FINDABLE, ON_HOST, IN_POOL = "held by requests", "to be found again", "host memory", "pool"
FILLS = {HELD: GREEN, FINDABLE: "#80CFB9", ON_HOST: BLUE, IN_POOL: SKY}


def draw_load(metrics: dict[str, Any], params: dict[str, Any]) -> tuple[Spec, Rows]:
    """A row of bars a replica, all on one scale; beside its name its total."""
    table = metrics["loads"]
    replicas = 1 + max((row["replica"] for row in table), default=0)
    times = sorted({row["time_s"] for row in table})
    part_s = times[1] - times[0] if len(times) > 1 else max(metrics["window_s"], 1)
    end_s = max(metrics["window_s"], part_s * len(times))
    totals: Counter[int] = Counter()
    for row in table:
        totals[row["replica"]] += row["uncached_tokens"]
    x = clock(end_s)
    y: Spec = {"type": "quantitative", "scale": {"domain": [0, replicas], "nice": False}}
    top = round_up(max((row["uncached_tokens"] for row in table), default=1))
    spec = {
        "title": _load_headline(metrics, totals, part_s, incident_words(params, end_s)),
        "height": (72 if replicas <= FEW else 26) * max(replicas, 3),
        "layer": [
            _grounds(replicas, y | _names(totals, replicas)),
            _bars(table, replicas, part_s, top, x, y | _counts(replicas, part_s, top)),
            *incident_rules(params, end_s, x),
        ],
        "resolve": {"axis": {"y": "independent"}},
    }
    return spec, table


def _names(totals: Counter[int], replicas: int) -> Spec:
    """Right of each row its replica, with its sum; in one line where rows are narrow."""
    names = [
        (
            replicas - 0.6 - replica,
            [f"replica {replica}", short(totals[replica])]
            if replicas <= FEW
            else f"{replica}: {short(totals[replica])}",
        )
        for replica in range(replicas)
    ]
    return {"title": None, "axis": named_ticks(names, is_line=False) | {"orient": "right"}}


def _counts(replicas: int, part_s: float, top: float) -> Spec:
    """Left of each row its axis; narrow rows have room for one number, the lowest also for its 0."""
    ticks: list[tuple[float, Label]] = []
    for row in range(replicas):
        ticks += Band(row, 1 - FREE_ROOM, top).ticks(
            *([(0, "0")] if replicas <= FEW or not row else []), (top, short(top))
        )
    title = ["prompt tokens not found", f"in cache, per {part_s:,.3g} s"]
    return {"title": title, "axis": named_ticks(ticks) | {"domain": False, "grid": True}}


def _bars(table: Rows, replicas: int, part_s: float, top: float, x: Spec, y: Spec) -> Spec:
    """A bar for what a replica got in one part of the time; replica 0 in the row at the top."""
    return {
        "data": {"values": [row for row in table if row["uncached_tokens"]]},
        "transform": [
            {"calculate": f"datum.time_s + {part_s} * 0.92", "as": "to_s"},
            {"calculate": f"{replicas - 1} - datum.replica", "as": "ground"},
            {
                "calculate": f"datum.ground + {1 - FREE_ROOM} * datum.uncached_tokens / {top}",
                "as": "head",
            },
        ],
        "mark": {"type": "rect", "color": ORANGE},
        "encoding": {
            "x": {"field": "time_s"} | x,
            "x2": {"field": "to_s"},
            "y": {"field": "ground"} | y,
            "y2": {"field": "head"},
            "tooltip": tooltip(replica="replica", time_s="from, s", uncached_tokens="uncached tokens"),
        },
    }


def _grounds(replicas: int, y: Spec) -> Spec:
    return {
        "data": {"values": [{"ground": row} for row in range(replicas)]},
        "mark": {"type": "rule", "strokeWidth": 0.75, "aria": False},
        "encoding": {"y": {"field": "ground"} | y},
    }


def _load_headline(metrics: dict[str, Any], totals: Counter[int], part_s: float, incident: str) -> Spec:
    below = f"a bar: requests sent within {part_s:,.3g} s; beside a name: the sum{incident}"
    if not sum(totals.values()):
        return headline("No replica got an uncached prompt token", below)
    busiest = max(totals, key=lambda replica: (totals[replica], -replica))
    if len(totals) == 1:
        return headline(f"The one replica got {short(totals[0])} uncached prompt tokens", below)
    return headline(
        f"Replica {busiest} got {metrics['load_imbalance']:.2f} × as many uncached prompt tokens as the mean",
        below,
    )


def draw_residency(metrics: dict[str, Any], params: dict[str, Any]) -> tuple[Spec, Rows]:
    """HBM as two areas; where there are other tiers, lines in a band above."""
    table = [
        {key: round(value, 4) for key, value in row.items()}
        for row in sorted(metrics["residency"], key=lambda row: row["time_s"])
    ]
    tiers = {
        ON_HOST: ("host_share", bool(params["host_gb"])),
        IN_POOL: ("pool_share", bool(params["pool_gb"])),
    }
    shown = {name: field for name, (field, is_there) in tiers.items() if is_there}
    hbm, others = Band(0, 1, 1), Band(1.2, 0.6, 1)
    end_s = max((row["time_s"] for row in table), default=0.0)
    x = clock(end_s)
    palette = {name: colour for name, colour in FILLS.items() if name in (HELD, FINDABLE, *shown)}
    layers = [
        _area(HELD, hbm, "0", "datum.held_share", palette),
        _area(FINDABLE, hbm, "datum.held_share", "datum.held_share + datum.cached_share", palette),
        *(_line(name, field, others, palette) for name, field in shown.items()),
    ]
    ticks = hbm.ticks((0, "0%"), (0.5, "50%"), (1, "100%"))
    if shown:
        ticks += others.ticks((0, "0%"), (1, "100%"))
    spec = {
        "title": _residency_headline(metrics, table, shown, incident_words(params, end_s)),
        "data": {"values": table},
        "layer": [*layers, *incident_rules(params, end_s, x)],
        "encoding": {
            "x": {"field": "time_s"} | x,
            "y": {
                "type": "quantitative",
                "title": "of HBM's KV, of other tiers" if shown else "of HBM's KV blocks",
                "scale": {"domain": [0, 1.84 if shown else 1.02], "nice": False},
                "axis": named_ticks(ticks),
            },
        },
    }
    return spec, table


def _residency_headline(metrics: dict[str, Any], table: Rows, shown: dict[str, str], incident: str) -> Spec:
    peak = max((row["held_share"] + row["cached_share"] for row in table), default=0.0)
    below = (
        f"all replicas together; one replica's requests held at most {percent(metrics['peak_held_share'])}"
    )
    for name, field in shown.items():
        below += f"; {name} up to {percent(max((row[field] for row in table), default=0.0))}"
    below += incident
    if peak > 0.98:
        return headline("HBM is full of KV: what comes in pushes something out", below)
    return headline(f"KV fills up to {percent(peak)} of HBM's room", below)


def _area(name: str, band: Band, low: str, high: str, palette: dict[str, str]) -> Spec:
    return {
        "transform": [
            {"calculate": band.at(low), "as": "low"},
            {"calculate": band.at(high), "as": "high"},
            {"calculate": repr(name), "as": "kind"},
        ],
        "mark": {"type": "area", "interpolate": "step-after"},
        "encoding": {
            "y": {"field": "low"},
            "y2": {"field": "high"},
            "color": {"field": "kind", "type": "nominal", "scale": colours(palette)},
        },
    }


def _line(name: str, field: str, band: Band, palette: dict[str, str]) -> Spec:
    return {
        "transform": [
            {"calculate": band.at(f"datum.{field}"), "as": "high"},
            {"calculate": repr(name), "as": "kind"},
        ],
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2.5},
        "encoding": {
            "y": {"field": "high"},
            "color": {"field": "kind", "type": "nominal", "scale": colours(palette)},
        },
    }
