"""The pictures of an MoE run, drawn from its report alone. Every title says what one sees."""

from typing import Any

from simworkers.catalog import MOE_EPLB, Figure, Report
from simworkers.drawing import BLUE, GREEN, GREY, ORANGE, SKY, VERMILION, colours, finish

BEFORE, AFTER = "contiguous", "chosen setting"
PLACEMENTS = {BEFORE: ORANGE, AFTER: BLUE}
GB = 1e9

Spec = dict[str, Any]
Rows = list[dict[str, Any]]


def draw(report: Report) -> dict[str, Figure]:
    """Every figure of the catalogue, by name."""
    drawn = {}
    for figure in MOE_EPLB.figures:
        spec, table = _DRAWERS[figure.name](report.metrics)
        drawn[figure.name] = finish(figure, spec, table)
    return drawn


def _gpu_axis(gpus: int) -> Spec:
    return {
        "field": "gpu",
        "type": "ordinal",
        "title": "GPU",
        "axis": {"labelAngle": 0, "labelOverlap": True, "ticks": gpus <= 16, "domain": True},
    }


def _placement_offset() -> Spec:
    return {"field": "placement", "type": "nominal", "scale": {"domain": list(PLACEMENTS)}}


def _headline(text: str | Spec, below: str) -> Spec:
    return {"text": text, "subtitle": below, "subtitleFontSize": 12, "offset": 12}


def draw_gpu_tokens(metrics: dict[str, Any]) -> tuple[Spec, Rows]:
    """Bars per GPU for one layer, which a slider picks; the axis stays while it moves."""
    before, after = metrics["gpu_load_before"], metrics["gpu_load"]
    layers, gpus = len(before), len(before[0])
    table = [
        {"layer": layer, "gpu": gpu, BEFORE: before[layer][gpu], AFTER: after[layer][gpu]}
        for layer in range(layers)
        for gpu in range(gpus)
    ]
    worst = max(range(layers), key=lambda layer: max(before[layer]) / sum(before[layer]))
    top = max(max(map(max, before)), max(map(max, after)))
    slider: Spec = {"name": "layer", "value": worst}
    if layers > 1:
        slider["bind"] = {"input": "range", "min": 0, "max": layers - 1, "step": 1, "name": "Layer "}
    bars = {
        "mark": {"type": "bar", "strokeWidth": 2.5 if gpus <= 16 else 1},
        "encoding": {
            "x": _gpu_axis(gpus),
            "xOffset": _placement_offset(),
            "y": {
                "field": "tokens",
                "type": "quantitative",
                "title": "token copies received",
                "scale": {"domain": [0, top * 1.04], "nice": False},
                "axis": {"format": "~s", "tickCount": 5},
            },
            "color": {"field": "placement", "type": "nominal", "scale": colours(PLACEMENTS)},
            "stroke": {"condition": {"test": "datum.straggler", "value": VERMILION}, "value": None},
            "tooltip": [{"field": name} for name in ("gpu", "placement", "tokens")],
        },
    }
    crown = {
        "transform": [{"filter": "datum.straggler"}],
        "mark": {
            "type": "point",
            "shape": "triangle-down",
            "filled": True,
            "opacity": 1,
            "size": 70,
            "yOffset": -8,
        },
        "encoding": {
            "x": _gpu_axis(gpus),
            "xOffset": _placement_offset(),
            "y": {"field": "tokens", "type": "quantitative"},
            "color": {"value": VERMILION},
        },
    }
    mean = {
        "mark": {"type": "rule", "strokeDash": [5, 4]},
        "encoding": {"y": {"aggregate": "mean", "field": "tokens", "type": "quantitative"}},
    }
    spec = {
        "title": _headline(
            {
                "expr": f"'Layer ' + layer + ' of 0 … {layers - 1}: one GPU receives more tokens than the others'"
            },
            "▼ the straggler; dashed: the mean, which no placement moves",
        ),
        "params": [slider],
        # One row a layer: 61 layers of 64 GPUs would be four times as long as single rows.
        "data": {
            "values": [
                {"layer": layer, "gpu": list(range(gpus)), BEFORE: before[layer], AFTER: after[layer]}
                for layer in range(layers)
            ]
        },
        "transform": [
            {"filter": "datum.layer == layer"},
            {"flatten": ["gpu", BEFORE, AFTER]},
            {"fold": [BEFORE, AFTER], "as": ["placement", "tokens"]},
            {"joinaggregate": [{"op": "max", "field": "tokens", "as": "most"}], "groupby": ["placement"]},
            {"calculate": "datum.tokens == datum.most", "as": "straggler"},
        ],
        "layer": [bars, mean, crown],
    }
    return spec, table


TIME_PARTS = {"expert compute": BLUE, "dispatch and combine": GREEN, "waiting at the barrier": GREY}


def draw_step_time(metrics: dict[str, Any]) -> tuple[Spec, Rows]:
    """Two stacked bars a GPU: pale is contiguous, full is the chosen setting."""
    table = [
        {"gpu": gpu, "placement": placement, "part": part, "order": order, "us": round(values[gpu], 3)}
        for placement, suffix in ((BEFORE, "_before"), (AFTER, ""))
        for order, (part, values) in enumerate(
            zip(
                TIME_PARTS,
                (metrics[f"gpu_{name}_us{suffix}"] for name in ("compute", "links", "barrier")),
                strict=True,
            )
        )
        for gpu in range(len(values))
    ]
    gpus = len(metrics["gpu_compute_us"])
    before, after = metrics["step_time_before_us"], metrics["step_time_us"]
    spec = {
        "title": _headline(
            "Every GPU's step lasts as long as the slowest GPU of each layer",
            f"{before:,.0f} µs a step contiguous (pale), {after:,.0f} µs under the chosen setting (full colour)",
        ),
        "data": {"values": table},
        "mark": {"type": "bar"},
        "encoding": {
            "x": _gpu_axis(gpus),
            "xOffset": _placement_offset(),
            "y": {
                "field": "us",
                "type": "quantitative",
                "title": "modelled time of a step, µs",
                "axis": {"tickCount": 5},
            },
            "color": {"field": "part", "type": "nominal", "scale": colours(TIME_PARTS)},
            "opacity": {
                "field": "placement",
                "type": "nominal",
                "scale": {"domain": list(PLACEMENTS), "range": [0.45, 1.0]},
                "legend": None,
            },
            "order": {"field": "order"},
            "tooltip": [{"field": name} for name in ("gpu", "placement", "part", "us")],
        },
    }
    return spec, table


LEDGER_PARTS = {
    "reserve": GREY,
    "other weights": SKY,
    "experts": BLUE,
    "extra copies": VERMILION,
    "room for KV": GREEN,
}


def draw_hbm_ledger(metrics: dict[str, Any]) -> tuple[Spec, Rows]:
    """One stack a GPU; ticks show the whole memory and how far the KV demand would reach."""
    gpus = len(metrics["hbm_expert_bytes"])
    table: Rows = []
    demand: Rows = []
    for gpu in range(gpus):
        parts = (
            metrics["hbm_reserve_bytes"],
            metrics["hbm_other_weights_bytes"],
            metrics["hbm_expert_bytes"][gpu],
            metrics["hbm_copies_bytes"][gpu],
            metrics["kv_room_bytes_per_gpu"],
        )
        for order, (part, size) in enumerate(zip(LEDGER_PARTS, parts, strict=True)):
            table.append({"gpu": gpu, "part": part, "order": order, "gb": round(size / GB, 3)})
        reach = (sum(parts[:-1]) + metrics["hbm_kv_demand_bytes"]) / GB
        demand.append({"gpu": gpu, "gb": round(reach, 3)})
    capacity = metrics["hbm_capacity_bytes"] / GB
    stack = {
        "data": {"values": table},
        "mark": {"type": "bar"},
        "encoding": {
            "x": _gpu_axis(gpus),
            "y": {"field": "gb", "type": "quantitative", "title": "HBM, GB", "axis": {"tickCount": 6}},
            "color": {"field": "part", "type": "nominal", "scale": colours(LEDGER_PARTS)},
            "order": {"field": "order"},
            "tooltip": [{"field": name} for name in ("gpu", "part", "gb")],
        },
    }
    whole = {
        "data": {"values": [{"gb": capacity}]},
        "mark": {"type": "rule", "strokeWidth": 1.5},
        "encoding": {"y": {"field": "gb", "type": "quantitative"}},
    }
    wanted = {
        "data": {"values": demand},
        "mark": {
            "type": "tick",
            "thickness": 4,
            "opacity": 1,
            "color": ORANGE,
            "bandSize": 30 if gpus <= 8 else 6,
        },
        "encoding": {"x": _gpu_axis(gpus), "y": {"field": "gb", "type": "quantitative"}},
    }
    spec = {
        "title": _headline(
            "Extra copies take memory that could hold KV",
            f"line: {capacity:,.0f} GB of HBM; orange tick: how far the KV that the requests need would reach",
        ),
        "layer": [stack, whole, wanted],
    }
    return spec, table


BINDS = {
    "hbm_bandwidth": ("HBM bandwidth", SKY),
    "flops": ("FLOPs", BLUE),
    "links": ("links", GREEN),
    "barrier_wait": ("barrier waiting", GREY),
    "kv_capacity": ("KV capacity", VERMILION),
}


def draw_what_binds(metrics: dict[str, Any]) -> tuple[Spec, Rows]:
    """Two bars that add up to one."""
    table = []
    for placement, suffix in ((BEFORE, "_before"), (AFTER, "")):
        start = 0.0
        for name, (label, _) in BINDS.items():
            share = metrics[f"share_{name}{suffix}"]
            middle = start + share / 2
            table.append(
                {
                    "placement": placement,
                    "resource": label,
                    "share": round(share, 4),
                    "middle": round(middle, 4),
                }
            )
            start += share
    order = [label for label, _ in BINDS.values()]
    rows = {
        "field": "placement",
        "type": "nominal",
        "title": None,
        "sort": list(PLACEMENTS),
        "axis": {"labelLimit": 120},
    }
    bars = {
        "transform": [{"calculate": f"indexof({order!r}, datum.resource)", "as": "order"}],
        "mark": {"type": "bar"},
        "encoding": {
            "y": rows,
            "x": {
                "field": "share",
                "type": "quantitative",
                "title": "share of modelled GPU time",
                "scale": {"domain": [0, 1]},
                "axis": {"format": "%", "tickCount": 5},
            },
            "color": {
                "field": "resource",
                "type": "nominal",
                "scale": colours(dict(BINDS.values())),
            },
            "order": {"field": "order"},
            "tooltip": [{"field": "placement"}, {"field": "resource"}, {"field": "share", "format": ".1%"}],
        },
    }
    labels = {
        "transform": [{"filter": "datum.share >= 0.07"}],
        "mark": {"type": "text", "color": "white", "fontWeight": 600},
        "encoding": {
            "y": rows,
            "x": {"field": "middle", "type": "quantitative"},
            "text": {"field": "share", "format": ".0%"},
        },
    }
    biggest = max(BINDS, key=lambda name: metrics[f"share_{name}"])
    spec = {
        "title": _headline(
            "What the time of all GPUs is bound by", f"most under the chosen setting: {BINDS[biggest][0]}"
        ),
        "height": {"step": 56},
        "data": {"values": table},
        "layer": [bars, labels],
    }
    return spec, table


def draw_imbalance(metrics: dict[str, Any]) -> tuple[Spec, Rows]:
    """Two lines over the measured steps, the sampling floor and the rebalances."""
    before, after = metrics["step_max_over_mean_before"], metrics["step_max_over_mean"]
    table = [
        {"step": step, "placement": placement, "max_over_mean": round(value, 5)}
        for placement, values in ((BEFORE, before), (AFTER, after))
        for step, value in enumerate(values)
    ]
    floor = metrics["sampling_floor"]
    top = max(*before, *after, floor)
    height = {
        "type": "quantitative",
        "title": "tokens of the busiest GPU ÷ mean",
        "scale": {"domain": [1, 1 + (top - 1) * 1.1 + 0.02], "nice": False},
        "axis": {"format": ".2f", "tickCount": 5},
    }
    steps = {
        "field": "step",
        "type": "quantitative",
        "title": "measured step",
        "scale": {"domain": [0, max(len(before) - 1, 1)], "nice": False},
        "axis": {"format": "d", "tickMinStep": 1},
    }
    lines = {
        "data": {"values": table},
        "mark": {"type": "line", "strokeWidth": 2.5, "point": {"size": 28} if len(before) <= 64 else False},
        "encoding": {
            "x": steps,
            "y": {"field": "max_over_mean"} | height,
            "color": {
                "field": "placement",
                "type": "nominal",
                "scale": colours(PLACEMENTS),
                "legend": {"symbolType": "stroke", "symbolSize": 300},
            },
            "strokeDash": {
                "field": "placement",
                "type": "nominal",
                "scale": {"domain": list(PLACEMENTS), "range": [[5, 3], [1, 0]]},
                "legend": {"symbolType": "stroke", "symbolSize": 300},
            },
            "tooltip": [{"field": name} for name in ("step", "placement", "max_over_mean")],
        },
    }
    chance = {
        "data": {"values": [{"floor": round(floor, 5)}]},
        "mark": {"type": "rule", "strokeWidth": 1.5, "strokeDash": [2, 3]},
        "encoding": {"y": {"field": "floor"} | height},
    }
    rebalances = {
        "data": {"values": [{"step": step, "at": 1} for step in metrics["rebalance_steps"]]},
        "mark": {
            "type": "point",
            "shape": "triangle-up",
            "filled": True,
            "opacity": 1,
            "size": 90,
            "color": VERMILION,
            "yOffset": -6,
        },
        "encoding": {"x": steps, "y": {"field": "at"} | height},
    }
    below = f"dotted: sampling floor {floor:.3f}, what chance alone leaves"
    if metrics["rebalance_steps"]:
        below += "; ▲ a rebalance"
    spec = {
        "title": _headline("How uneven the GPUs are, step by step", below),
        "layer": [lines, chance, rebalances],
    }
    return spec, table


_DRAWERS = {
    "gpu-tokens": draw_gpu_tokens,
    "step-time": draw_step_time,
    "hbm-ledger": draw_hbm_ledger,
    "what-binds": draw_what_binds,
    "imbalance": draw_imbalance,
}
