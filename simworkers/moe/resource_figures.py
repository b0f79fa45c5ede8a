"""Pictures of time and memory: a step's time, the HBM ledger, and what binds."""

from typing import Any

from simworkers.drawing import BLUE, GREEN, GREY, ORANGE, SKY, VERMILION, Rows, Spec, colours, headline
from simworkers.moe.figure_parts import AFTER, BEFORE, PLACEMENTS, gpu_axis, placement_offset

GB = 1e9

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
        "title": headline(
            "Every GPU's step lasts as long as the slowest GPU of each layer",
            f"{before:,.0f} µs a step contiguous (pale), {after:,.0f} µs under the chosen setting (full colour)",
        ),
        "data": {"values": table},
        "mark": {"type": "bar"},
        "encoding": {
            "x": gpu_axis(gpus),
            "xOffset": placement_offset(),
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
    table, demand = _ledger(metrics)
    capacity_gb = metrics["hbm_capacity_bytes"] / GB
    stack = {
        "data": {"values": table},
        "mark": {"type": "bar"},
        "encoding": {
            "x": gpu_axis(gpus),
            "y": {"field": "gb", "type": "quantitative", "title": "HBM, GB", "axis": {"tickCount": 6}},
            "color": {"field": "part", "type": "nominal", "scale": colours(LEDGER_PARTS)},
            "order": {"field": "order"},
            "tooltip": [{"field": name} for name in ("gpu", "part", "gb")],
        },
    }
    whole = {
        "data": {"values": [{"gb": capacity_gb}]},
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
        "encoding": {"x": gpu_axis(gpus), "y": {"field": "gb", "type": "quantitative"}},
    }
    spec = {
        "title": headline(
            "Extra copies take memory that could hold KV",
            f"line: {capacity_gb:,.0f} GB of HBM; orange tick: how far the KV that the requests need would reach",
        ),
        "layer": [stack, whole, wanted],
    }
    return spec, table


def _ledger(metrics: dict[str, Any]) -> tuple[Rows, Rows]:
    """(parts of every GPU's memory, how far its demand would reach)"""
    table: Rows = []
    demand: Rows = []
    for gpu in range(len(metrics["hbm_expert_bytes"])):
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
    return table, demand


BINDS = {
    "hbm_bandwidth": ("HBM bandwidth", SKY),
    "flops": ("FLOPs", BLUE),
    "links": ("links", GREEN),
    "barrier_wait": ("barrier waiting", GREY),
    "kv_capacity": ("KV capacity", VERMILION),
}


def draw_what_binds(metrics: dict[str, Any]) -> tuple[Spec, Rows]:
    """Two bars that add up to one."""
    table = _shares(metrics)
    biggest = max(BINDS, key=lambda name: metrics[f"share_{name}"])
    rows = {
        "field": "placement",
        "type": "nominal",
        "title": None,
        "sort": list(PLACEMENTS),
        "axis": {"labelLimit": 120},
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
    spec = {
        "title": headline(
            "What the time of all GPUs is bound by", f"most under the chosen setting: {BINDS[biggest][0]}"
        ),
        "height": {"step": 56},
        "data": {"values": table},
        "layer": [_share_bars(rows), labels],
    }
    return spec, table


def _shares(metrics: dict[str, Any]) -> Rows:
    """One beside the other; `middle` is where a share's number stands."""
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
    return table


def _share_bars(y: Spec) -> Spec:
    order = [label for label, _ in BINDS.values()]
    return {
        "transform": [{"calculate": f"indexof({order!r}, datum.resource)", "as": "order"}],
        "mark": {"type": "bar"},
        "encoding": {
            "y": y,
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
