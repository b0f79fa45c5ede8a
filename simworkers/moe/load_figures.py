"""Pictures of load: tokens per GPU, and imbalance over the steps."""

from typing import Any

from simworkers.drawing import VERMILION, Rows, Spec, colours, headline
from simworkers.moe.figure_parts import AFTER, BEFORE, PLACEMENTS, gpu_axis, placement_offset


def draw_gpu_tokens(metrics: dict[str, Any]) -> tuple[Spec, Rows]:
    """Bars per GPU for one layer, which a slider picks; the axis stays while it moves."""
    before, after = metrics["gpu_load_before"], metrics["gpu_load"]
    layers, gpus = len(before), len(before[0])
    table = [
        {"layer": layer, "gpu": gpu, BEFORE: before[layer][gpu], AFTER: after[layer][gpu]}
        for layer in range(layers)
        for gpu in range(gpus)
    ]
    top = max(max(map(max, before)), max(map(max, after)))
    spec = {
        "title": headline(
            {
                "expr": f"'Layer ' + layer + ' of 0 … {layers - 1}: one GPU receives more tokens than the others'"
            },
            "▼ the straggler; dashed: the mean, which no placement moves",
        ),
        "params": [_layer_slider(before)],
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
        "layer": [_token_bars(gpus, top), _mean_rule(), _crown(gpus)],
    }
    return spec, table


def _layer_slider(load: list[list[float]]) -> Spec:
    """load: [L][G]. It starts at the layer in which one GPU has most."""
    layers = len(load)
    worst = max(range(layers), key=lambda layer: max(load[layer]) / sum(load[layer]))
    slider: Spec = {"name": "layer", "value": worst}
    if layers > 1:
        slider["bind"] = {"input": "range", "min": 0, "max": layers - 1, "step": 1, "name": "Layer "}
    return slider


def _token_bars(gpus: int, top: float) -> Spec:
    return {
        "mark": {"type": "bar", "strokeWidth": 2.5 if gpus <= 16 else 1},
        "encoding": {
            "x": gpu_axis(gpus),
            "xOffset": placement_offset(),
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


def _mean_rule() -> Spec:
    return {
        "mark": {"type": "rule", "strokeDash": [5, 4]},
        "encoding": {"y": {"aggregate": "mean", "field": "tokens", "type": "quantitative"}},
    }


def _crown(gpus: int) -> Spec:
    """Over the straggler."""
    return {
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
            "x": gpu_axis(gpus),
            "xOffset": placement_offset(),
            "y": {"field": "tokens", "type": "quantitative"},
            "color": {"value": VERMILION},
        },
    }


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
    below = f"dotted: sampling floor {floor:.3f}, what chance alone leaves"
    if metrics["rebalance_steps"]:
        below += "; ▲ a rebalance"
    spec = {
        "title": headline("How uneven the GPUs are, step by step", below),
        "layer": [
            _imbalance_lines(table, steps, height, has_points=len(before) <= 64),
            {
                "data": {"values": [{"floor": round(floor, 5)}]},
                "mark": {"type": "rule", "strokeWidth": 1.5, "strokeDash": [2, 3]},
                "encoding": {"y": {"field": "floor"} | height},
            },
            _rebalances(metrics["rebalance_steps"], steps, height),
        ],
    }
    return spec, table


def _imbalance_lines(table: Rows, x: Spec, y: Spec, *, has_points: bool) -> Spec:
    legend = {"symbolType": "stroke", "symbolSize": 300}
    return {
        "data": {"values": table},
        "mark": {"type": "line", "strokeWidth": 2.5, "point": {"size": 28} if has_points else False},
        "encoding": {
            "x": x,
            "y": {"field": "max_over_mean"} | y,
            "color": {
                "field": "placement",
                "type": "nominal",
                "scale": colours(PLACEMENTS),
                "legend": legend,
            },
            "strokeDash": {
                "field": "placement",
                "type": "nominal",
                "scale": {"domain": list(PLACEMENTS), "range": [[5, 3], [1, 0]]},
                "legend": legend,
            },
            "tooltip": [{"field": name} for name in ("step", "placement", "max_over_mean")],
        },
    }


def _rebalances(at_steps: list[int], x: Spec, y: Spec) -> Spec:
    return {
        "data": {"values": [{"step": step, "at": 1} for step in at_steps]},
        "mark": {
            "type": "point",
            "shape": "triangle-up",
            "filled": True,
            "opacity": 1,
            "size": 90,
            "color": VERMILION,
            "yOffset": -6,
        },
        "encoding": {"x": x, "y": {"field": "at"} | y},
    }
