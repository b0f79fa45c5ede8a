"""How much of the input each policy finds in caches."""

from typing import Any

from simworkers.agents.pictures.figure_parts import listed, percent, words
from simworkers.drawing import BLUE, GREY, Rows, Spec, headline, tooltip

RATE: Spec = {
    "type": "quantitative",
    "title": "hit rate",
    "scale": {"domain": [0, 1]},
    "axis": {"format": "%", "tickCount": 5},
}


def draw_hit_rate(metrics: dict[str, Any], params: dict[str, Any]) -> tuple[Spec, Rows]:
    """A bar a policy, the best first; the line is the hit rate that no policy can pass."""
    own = words(params["policy"])
    table = _table(metrics, params)
    spec = {
        "title": _headline(table, metrics, own),
        "height": {"step": 34},
        "data": {"values": table},
        "layer": [_bars(table, own), _ceiling(metrics["hit_rate_ceiling"])],
    }
    return spec, table


def _table(metrics: dict[str, Any], params: dict[str, Any]) -> Rows:
    found = metrics["policies"] or [
        {
            "policy": params["policy"],
            "hit_rate": metrics["hit_rate"],
            "load_imbalance": metrics["load_imbalance"],
        }
    ]
    return [
        {
            "policy": words(row["policy"]),
            "hit_rate": round(row["hit_rate"], 5),
            "hit_rate_ceiling": round(metrics["hit_rate_ceiling"], 5),
            "load_imbalance": round(row["load_imbalance"], 3),
        }
        for row in sorted(found, key=lambda row: -row["hit_rate"])
    ]


def _bars(table: Rows, own: str) -> Spec:
    """Each named with its numbers, in a line of their own."""
    numbers = {
        row["policy"]: [row["policy"], f"{percent(row['hit_rate'])}, {row['load_imbalance']:.2f}"]
        for row in table
    }
    y = {
        "field": "policy",
        "type": "nominal",
        "title": None,
        "sort": [row["policy"] for row in table],
        "axis": {
            "labelLimit": 150,
            "labelOffset": -7,
            "labelPadding": 6,
            "ticks": False,
            "labelExpr": f"{numbers!r}[datum.label]",
        },
    }
    return {
        "mark": {"type": "bar"},
        "encoding": {
            "y": y,
            "x": {"field": "hit_rate"} | RATE,
            "color": {"condition": {"test": f"datum.policy == {own!r}", "value": BLUE}, "value": GREY},
            "tooltip": tooltip(
                policy="policy", hit_rate="hit rate", load_imbalance="max/mean of uncached tokens"
            ),
        },
    }


def _ceiling(rate: float) -> Spec:
    return {
        "data": {"values": [{"ceiling": round(rate, 5)}]},
        "mark": {"type": "rule", "strokeWidth": 2, "strokeDash": [5, 4]},
        "encoding": {"x": {"field": "ceiling"} | RATE},
    }


def _headline(table: Rows, metrics: dict[str, Any], own: str) -> Spec:
    ceiling = metrics["hit_rate_ceiling"]
    below = (
        f"dashed: {percent(ceiling)}, one replica with endless KV; numbers: hit rate, and the busiest replica's "
        "uncached tokens ÷ mean"
    )
    if not metrics["policies"]:
        return headline(f"{own} finds {percent(table[0]['hit_rate'])} of all prompt tokens", below)
    ranks: dict[
        str, list[str]
    ] = {}  # as percentages are written, so that none is named alone beside its like
    for row in table:
        ranks.setdefault(percent(row["hit_rate"]), []).append(row["policy"])
    if len(ranks) == 1:
        return headline(f"Every policy finds {next(iter(ranks))} of all prompt tokens", below)
    (best, leading), *_, (worst, trailing) = ranks.items()
    return headline(
        f"From {worst} under {listed(trailing)} to {best} under {listed(leading)}",
        f"blue: this run's {own}; {below}",
    )
