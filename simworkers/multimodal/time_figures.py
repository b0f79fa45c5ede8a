"""Pictures over time: where the time to the first token goes, and what fills the caches."""

from itertools import groupby
from math import floor, log10
from statistics import fmean
from typing import Any

from simworkers.drawing import BLUE, GREEN, GREY, ORANGE, SKY, Rows, Spec, colours, headline, tooltip

TTFT_PARTS = {"upload": SKY, "preprocess": ORANGE, "waiting": GREY, "encode": GREEN, "prefill": BLUE}
TTFT_FIELDS = ("upload_us", "preprocess_us", "queue_us", "encode_us", "prefill_us")


def draw_ttft_by_turn(metrics: dict[str, Any], params: dict[str, Any]) -> tuple[Spec, Rows]:
    """A stacked bar a turn, its sum on top."""
    by_turn = sorted(metrics["turns"], key=lambda row: row["turn"])
    table: Rows = []
    sums: Rows = []
    for turn, group in groupby(by_turn, key=lambda row: row["turn"]):
        rows = list(group)
        sums.append({"turn": turn, "ms": round(fmean(row["ttft_us"] for row in rows) / 1000, 3)})
        for order, (part, field) in enumerate(zip(TTFT_PARTS, TTFT_FIELDS, strict=True)):
            mean_ms = fmean(row[field] for row in rows) / 1000
            table.append({"turn": turn, "part": part, "order": order, "ms": round(mean_ms, 3)})
    turns = {
        "field": "turn",
        "type": "ordinal",
        "title": "turn",
        "axis": {"labelAngle": 0},
        # One turn alone is no bar as wide as the page.
        "scale": {"paddingInner": 0.2, "paddingOuter": max(0.2, (4 - len(sums)) / 2)},
    }
    height = {
        "field": "ms",
        "type": "quantitative",
        "title": "TTFT, ms",
        "scale": {"domain": [0, max(row["ms"] for row in sums) * 1.1], "nice": False},
        "axis": {"tickCount": 5},
    }
    bars = {
        "data": {"values": table},
        "mark": {"type": "bar"},
        "encoding": {
            "x": turns,
            "y": height,
            "color": {"field": "part", "type": "nominal", "scale": colours(TTFT_PARTS)},
            "order": {"field": "order"},
            "tooltip": tooltip(turn="turn", part="stage", ms="ms, mean over users"),
        },
    }
    totals = {
        "data": {"values": sums},
        "mark": {"type": "text", "dy": -8},
        "encoding": {"x": turns, "y": height, "text": {"field": "ms", "format": ".0f"}},
    }
    return {"title": _ttft_headline(table, sums), "layer": [bars, totals]}, table


def _ttft_headline(table: Rows, sums: Rows) -> Spec:
    turn = sums[min(1, len(sums) - 1)]["turn"]
    shown = [row for row in table if row["turn"] == turn]
    most = max(shown, key=lambda row: row["ms"])
    below = f"most of turn {turn} is {most['part']}: {most['ms']:,.0f} ms"
    first_ms = sums[0]["ms"]
    if turn == 1:
        return headline(f"The first token comes after {first_ms:,.0f} ms", below)
    second_ms = sums[1]["ms"]
    return headline(
        f"Turn 2 takes {second_ms:,.0f} ms to its first token; turn 1 took {first_ms:,.0f}", below
    )


HELD, FINDABLE, EMBEDDINGS = "KV held by requests", "KV to be found again", "embeddings"
FILLS = {HELD: BLUE, FINDABLE: SKY, EMBEDDINGS: GREEN}
PANEL_GAP = 0.3  # between the two panels; each is 1 high
LEAST_SHARE = 0.25  # a cache filled less than this is drawn larger, its capacity out of sight


def draw_cache_occupancy(metrics: dict[str, Any], params: dict[str, Any]) -> tuple[Spec, Rows]:
    """Two panels over one time axis, because embeddings are far smaller than KV: each has a scale of its own."""
    table = [
        {
            "time_s": round(row["time_us"] / 1e6, 4),
            "kv_held_mb": round(row["kv_held_bytes"] / 1e6, 3),
            "kv_cached_mb": round(row["kv_cached_bytes"] / 1e6, 3),
            "encoder_mb": round(row["encoder_bytes"] / 1e6, 3),
        }
        for row in metrics["occupancy"]
    ]
    kv = _Panel(
        "KV",
        0.0,
        metrics["kv_bytes"] / 1e6,
        max(row["kv_held_mb"] + row["kv_cached_mb"] for row in table),
    )
    encoder = _Panel(
        "encoder cache",
        1 + PANEL_GAP,
        metrics["encoder_cache_bytes"] / 1e6,
        max(row["encoder_mb"] for row in table),
    )
    areas = [
        _area(HELD, kv, "0", "datum.kv_held_mb"),
        _area(FINDABLE, kv, "datum.kv_held_mb", "datum.kv_held_mb + datum.kv_cached_mb"),
        _area(EMBEDDINGS, encoder, "0", "datum.encoder_mb"),
    ]
    spec = {
        "title": headline(
            f"KV fills {kv.peak_mb / kv.capacity_mb:.0%} of its memory, "
            f"embeddings {encoder.peak_mb / encoder.capacity_mb:.0%} of theirs",
            "at most, each on a scale of its own; dashed: what the cache can hold",
        ),
        "data": {"values": table},
        "layer": [*areas, *kv.capacity_layers(), *encoder.capacity_layers()],
        "encoding": {"y": _panel_axis(kv, encoder)},
    }
    return spec, table


class _Panel:
    """A band of the picture with bytes of its own: megabytes → height above the picture's ground."""

    def __init__(self, name: str, ground: float, capacity_mb: float, peak_mb: float) -> None:
        self.name, self.ground, self.capacity_mb, self.peak_mb = name, ground, capacity_mb, peak_mb
        self.shows_capacity = peak_mb >= LEAST_SHARE * capacity_mb
        self.top_mb = capacity_mb if self.shows_capacity else _round_up(peak_mb)

    def height(self, mb: str) -> str:
        """Vega expression of a height, from one of megabytes."""
        return f"{self.ground} + ({mb}) / {self.top_mb}"

    def capacity_layers(self) -> list[Spec]:
        at = {"datum": self.ground + 1}
        label = f"{self.name}: {_megabytes(self.capacity_mb)} MB"
        words = {
            "data": {"values": [{}]},
            "mark": {"type": "text", "align": "left", "baseline": "bottom", "dy": -3, "aria": False},
            "encoding": {
                "x": {"value": 4},
                "y": at,
                "text": {"value": label if self.shows_capacity else f"{label}, far above this"},
            },
        }
        rule = {
            "data": {"values": [{}]},
            "mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.5, "aria": False},
            "encoding": {"y": at},
        }
        return [rule, words] if self.shows_capacity else [words]


def _area(name: str, panel: _Panel, low_mb: str, high_mb: str) -> Spec:
    return {
        "transform": [
            {"calculate": panel.height(low_mb), "as": "low"},
            {"calculate": panel.height(high_mb), "as": "high"},
            {"calculate": repr(name), "as": "fill"},
        ],
        "mark": {"type": "area", "interpolate": "step-after"},
        "encoding": {
            "x": {
                "field": "time_s",
                "type": "quantitative",
                "title": "modelled time, s",
                "scale": {"zero": True, "nice": False},
                "axis": {"tickCount": 8},
            },
            "y": {"field": "low", "type": "quantitative"},
            "y2": {"field": "high"},
            "color": {"field": "fill", "type": "nominal", "scale": colours(FILLS)},
        },
    }


def _panel_axis(*panels: _Panel) -> Spec:
    """Ticks at nothing, half and all of each panel, labelled in megabytes."""
    ticks: list[float] = []
    labels: list[str] = []
    for panel in panels:
        for share in (0.0, 0.5, 1.0):
            ticks.append(panel.ground + share)
            labels.append(_megabytes(panel.top_mb * share))
    indices = " : ".join(
        f"abs(datum.value - {tick}) < 0.01 ? {label!r}" for tick, label in zip(ticks, labels, strict=True)
    )
    return {
        "type": "quantitative",
        "title": "MB",
        "scale": {"domain": [0, panels[-1].ground + 1.12], "nice": False},
        "axis": {"values": ticks, "labelExpr": f"{indices} : ''", "labelOverlap": False},
    }


def _round_up(mb: float) -> float:
    """To a round number, for the top of an axis."""
    power = 10.0 ** floor(log10(mb)) if mb > 0 else 1.0
    return next(digit * power for digit in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if mb <= digit * power * (1 + 1e-9))


def _megabytes(mb: float) -> str:
    return f"{mb:,.0f}" if mb >= 100 or mb == round(mb) else f"{mb:.1f}"
