"""Curves beyond one chat: tokens against the size of a picture, and encoder workers against the share of pictures."""

from typing import Any

from simworkers.drawing import BLUE, ORANGE, VERMILION, Rows, Spec, colours, headline, tooltip

NATIVE, TILED = "native resolution", "tiles and a thumbnail"
SCHEMES = {NATIVE: BLUE, TILED: ORANGE}


def draw_image_tokens(metrics: dict[str, Any], params: dict[str, Any]) -> tuple[Spec, Rows]:
    """Two curves over the width; the run's own picture is marked where its size is known."""
    table = [
        {
            "width_px": row["width_px"],
            "height_px": row["height_px"],
            "scheme": scheme,
            "tokens": row[field],
        }
        for scheme, field in ((NATIVE, "native_tokens"), (TILED, "tiled_tokens"))
        for row in metrics["resolutions"]
    ]
    own = metrics["image_tokens"]
    # A learner's own file, and one that was made smaller before the first send, have a width the report does not tell.
    is_size_known = params["picture"] != "own" and params["client"] != "normalised"
    widest = max(row["width_px"] for row in table)
    if is_size_known:
        widest = max(widest, params["image_width_px"])
    width = {
        "type": "quantitative",
        "title": "width, px (height: 5/8 of it)",
        "scale": {"domain": [0, widest], "nice": False},
        "axis": {"format": "d", "tickCount": 8},
    }
    height = {
        "type": "quantitative",
        "title": "tokens of one picture",
        "scale": {"domain": [0, max(own, *(row["tokens"] for row in table)) * 1.08], "nice": False},
        "axis": {"tickCount": 5},
    }
    lines = {
        "data": {"values": table},
        "mark": {"type": "line", "strokeWidth": 2.5, "point": {"size": 28}},
        "encoding": {
            "x": {"field": "width_px"} | width,
            "y": {"field": "tokens"} | height,
            "color": {"field": "scheme", "type": "nominal", "scale": colours(SCHEMES)} | _strokes(),
            "tooltip": tooltip(width_px="px wide", height_px="px high", scheme="scheme", tokens="tokens"),
        },
    }
    spec = {
        "title": _tokens_headline(metrics, params, is_size_known=is_size_known),
        "layer": [lines, _own_picture(own, params, width, height, is_size_known=is_size_known)],
    }
    return spec, table


def _tokens_headline(metrics: dict[str, Any], params: dict[str, Any], *, is_size_known: bool) -> Spec:
    scheme, field = (
        ("native resolution", "native_tokens") if params["scheme"] == "native" else ("tiles", "tiled_tokens")
    )
    most = max(row[field] for row in metrics["resolutions"])
    enough = min(row["width_px"] for row in metrics["resolutions"] if row[field] == most)
    own = f"{metrics['image_tokens']} tokens"
    if is_size_known:
        own = f"diamond: this run's picture, {params['image_width_px']:,} × {params['image_height_px']:,} px, {own}"
    else:
        own = f"dashed: this run's picture, {own}"
    return headline(
        f"A picture costs at most {most} tokens, reached at {enough:,} px of width", f"{scheme}; {own}"
    )


def _own_picture(own: int, params: dict[str, Any], width: Spec, height: Spec, *, is_size_known: bool) -> Spec:
    """A diamond where the run's first picture lies; a line across where only its tokens are known."""
    y = {"field": "tokens"} | height
    if not is_size_known:
        return {
            "data": {"values": [{"tokens": own}]},
            "mark": {"type": "rule", "strokeDash": [5, 4], "color": VERMILION, "strokeWidth": 1.5},
            "encoding": {"y": y},
        }
    return {
        "data": {"values": [{"width_px": params["image_width_px"], "tokens": own}]},
        "mark": {
            "type": "point",
            "shape": "diamond",
            "filled": True,
            "opacity": 1,
            "size": 150,
            "color": VERMILION,
        },
        "encoding": {"x": {"field": "width_px"} | width, "y": y},
    }


THROUGHPUT, PROMPTNESS = "tokens per GPU-second", "TTFT, colocated ÷ apart"
RATIOS = {THROUGHPUT: BLUE, PROMPTNESS: ORANGE}
RATIO_TICKS = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.3,
    0.4,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    1,
    1.1,
    1.2,
    1.4,
    1.6,
    1.8,
    2,
    2.5,
    3,
    4,
    5,
    7,
    10,
    20,
    50,
    100,
)
MOST_TICKS = 9


def draw_encoder_workers(metrics: dict[str, Any], params: dict[str, Any]) -> tuple[Spec, Rows]:
    """Two ratios over the share of requests with pictures; above one, encoder workers apart are better."""
    table = _ratios(metrics["cluster"])
    low, high = min(row["ratio"] for row in table), max(row["ratio"] for row in table)
    low, high = min(low / 1.05, 0.9), max(high * 1.05, 1.12)
    share = {
        "type": "quantitative",
        "title": "requests with pictures, %",
        "scale": {"domain": [0, 100], "nice": False},
        "axis": {"tickCount": 6},
    }
    height = {
        "type": "quantitative",
        "title": "times as good as colocated",
        "scale": {"type": "log", "domain": [low, high], "nice": False},
        "axis": {"values": _ratio_ticks(low, high), "format": "~g"},
    }
    even = {
        "data": {"values": [{"ratio": 1}]},
        "mark": {"type": "rule", "strokeWidth": 1.5},
        "encoding": {"y": {"field": "ratio"} | height},
    }
    load = {
        "data": {"values": [{"image_percent": params["cluster_image_percent"]}]},
        "mark": {"type": "rule", "strokeDash": [2, 3], "strokeWidth": 1.5},
        "encoding": {"x": {"field": "image_percent"} | share},
    }
    lines = _ratio_lines(table, share, height)
    return {"title": _workers_headline(table, params), "layer": [even, load, lines]}, table


def _ratios(cluster: Rows) -> Rows:
    """Of both measures, larger than one where encoder workers apart are better."""
    table = []
    for row in cluster:
        for measure, ratio in (
            (THROUGHPUT, row["split_tokens_per_gpu_s"] / row["colocated_tokens_per_gpu_s"]),
            (PROMPTNESS, row["colocated_ttft_us"] / row["split_ttft_us"]),
        ):
            table.append(
                {"image_percent": row["image_percent"], "measure": measure, "ratio": round(ratio, 4)}
            )
    return table


def _ratio_lines(table: Rows, x: Spec, y: Spec) -> Spec:
    dashes = {"domain": list(RATIOS), "range": [[1, 0], [5, 3]]}
    return {
        "data": {"values": table},
        "mark": {"type": "line", "strokeWidth": 2.5, "point": {"size": 40}},
        "encoding": {
            "x": {"field": "image_percent"} | x,
            "y": {"field": "ratio"} | y,
            "color": {"field": "measure", "type": "nominal", "scale": colours(RATIOS)} | _strokes(),
            "strokeDash": {"field": "measure", "type": "nominal", "scale": dashes} | _strokes(),
            "tooltip": tooltip(
                image_percent="% with pictures", measure="measure", ratio="times as good as colocated"
            ),
        },
    }


def _workers_headline(table: Rows, params: dict[str, Any]) -> Spec:
    workers, gpus = params["cluster_encoder_workers"], params["cluster_gpus"]
    below = (
        f"{workers} of {gpus} GPUs only encode; above the line at 1 that pays, below it costs; "
        f"dotted: this run's {params['cluster_image_percent']}%"
    )
    if workers == 0:
        return headline("No GPU only encodes, so both clusters are the same", below)
    rates = [row for row in table if row["measure"] == THROUGHPUT]
    first, last = rates[0], rates[-1]
    return headline(
        f"Throughput {_change(first['ratio'])} without pictures, "
        f"{_change(last['ratio'])} where every request has some",
        below,
    )


def _change(ratio: float) -> str:
    """+12%, −3% or ±0%."""
    percent = round(100 * (ratio - 1))
    return f"+{percent}%" if percent > 0 else f"−{-percent}%" if percent < 0 else "±0%"


def _ratio_ticks(low: float, high: float) -> list[float]:
    """Round ratios within the axis, 1 among them, and not so many that they touch."""
    inside = [tick for tick in RATIO_TICKS if low <= tick <= high]
    if len(inside) <= MOST_TICKS:
        return inside
    step = -(-len(inside) // MOST_TICKS)
    return [tick for n, tick in enumerate(inside) if (n - inside.index(1)) % step == 0]


def _strokes() -> Spec:
    return {"legend": {"symbolType": "stroke", "symbolSize": 300}}
