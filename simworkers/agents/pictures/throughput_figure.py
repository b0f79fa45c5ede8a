"""What throughput each policy gives at which interactivity."""

from typing import Any

from simworkers.agents.measure import LEAST_COMPLETED
from simworkers.agents.pictures.figure_parts import PURPLE, Point, percent, words
from simworkers.agents.pictures.number_places import place_numbers
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

# At most six policies stand beside the run's own; shapes tell apart what colours alone might not.
OTHERS = (
    (ORANGE, "square"),
    (GREEN, "triangle-up"),
    (VERMILION, "cross"),
    (SKY, "triangle-down"),
    (GREY, "circle"),
    (PURPLE, "triangle-right"),
)
OWN_LOOK = (BLUE, "diamond")
HEIGHT = 300  # px, as every figure that names none


def draw_throughput(metrics: dict[str, Any], params: dict[str, Any]) -> tuple[Spec, Rows]:
    """A line a policy, from few sessions at once to many; their names stand above, where no point can be."""
    own, floor = words(params["policy"]), params["floor_tokens_per_s"]
    table = _table(metrics, params)
    looks = _looks(list(dict.fromkeys(row["policy"] for row in table)), own)
    fastest = max(*(row["interactivity_p10"] for row in table), floor, 1) * 1.06
    top = max(*(row["tokens_per_gpu_s"] for row in table), 0.1) * 1.1
    x = {
        "type": "quantitative",
        "title": "interactivity that nine of ten requests reach, tokens/s",
        "scale": {"domain": [0, fastest], "nice": False},
        "axis": {"tickCount": 6, "grid": False},
    }
    y = {
        "type": "quantitative",
        "title": "output tokens per GPU-second",
        "scale": {"domain": [0, top], "nice": False},
        "axis": {"tickCount": 5},
    }
    return {
        "title": _headline(table, floor, is_compared=bool(metrics["curves"])),
        "height": HEIGHT,
        "layer": [
            _floor(floor, x),
            _curves(table, looks, own, x, y),
            _loads(_numbers(table, own, floor, fastest, top), x, y),
        ],
    }, table


def _table(metrics: dict[str, Any], params: dict[str, Any]) -> Rows:
    found = metrics["curves"] or [
        {
            "policy": params["policy"],
            "sessions_at_once": min(params["sessions_at_once"], metrics["sessions"]),
            "interactivity_p10": metrics["interactivity_p10"],
            "tokens_per_gpu_s": metrics["tokens_per_gpu_s"],
            "completed_share": metrics["completed_share"],
        }
    ]
    return [
        {
            "policy": words(row["policy"]),
            "sessions_at_once": row["sessions_at_once"],
            "interactivity_p10": round(row["interactivity_p10"], 3),
            "floor_tokens_per_s": params["floor_tokens_per_s"],
            "tokens_per_gpu_s": round(row["tokens_per_gpu_s"], 4),
            "completed_share": round(row["completed_share"], 7),  # so fine that none is rounded up to 99%
        }
        for row in found
    ]


def _looks(policies: list[str], own: str) -> dict[str, tuple[str, str]]:
    others = [policy for policy in policies if policy != own]
    found = dict(zip(others, OTHERS, strict=False))
    return {policy: found.get(policy, OWN_LOOK) for policy in policies}


def _curves(table: Rows, looks: dict[str, tuple[str, str]], own: str, x: Spec, y: Spec) -> Spec:
    return {
        "data": {"values": table},
        "encoding": {
            "x": {"field": "interactivity_p10"} | x,
            "y": {"field": "tokens_per_gpu_s"} | y,
            "order": {"field": "sessions_at_once"},
            "tooltip": tooltip(
                policy="policy",
                sessions_at_once="sessions at once",
                interactivity_p10="tokens/s, P90 floor",
                tokens_per_gpu_s="tokens per GPU-second",
                completed_share="requests completed, share",
            ),
        },
        "layer": [
            {
                "mark": {"type": "line"},
                "encoding": {
                    "color": _look(looks)["color"],
                    "strokeWidth": {
                        "condition": {"test": f"datum.policy == {own!r}", "value": 4},
                        "value": 1.75,
                    },
                },
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 60},
                "encoding": _look(looks),
            },
        ],
    }


def _look(looks: dict[str, tuple[str, str]]) -> Spec:
    """Colour and shape by policy, and both in the legend, unless the title names the only one."""
    legend: Spec | None = {} if len(looks) > 1 else None
    return {
        name: {
            "field": "policy",
            "type": "nominal",
            "scale": colours({policy: look[place] for policy, look in looks.items()}),
            "legend": legend,
        }
        for place, name in enumerate(("color", "shape"))
    }


def _numbers(table: Rows, own: str, floor: float, fastest: float, top: float) -> Rows:
    """Points of the run's policy with the place of their number. The most sessions come first, then the fewest, as a
    curve is read from end to end."""

    def place(interactivity: float, rate: float) -> Point:
        return interactivity / fastest, 1 - rate / top

    curves: dict[str, list[Point]] = {"floor": [(floor / fastest, 0), (floor / fastest, 1)]}
    for row in sorted(table, key=lambda row: row["sessions_at_once"]):
        curves.setdefault(row["policy"], []).append(place(row["interactivity_p10"], row["tokens_per_gpu_s"]))
    rows = [row for row in table if row["policy"] == own]
    rows = [*rows[-1:], *rows[:-1]]
    numbers = [
        (place(row["interactivity_p10"], row["tokens_per_gpu_s"]), str(row["sessions_at_once"]))
        for row in rows
    ]
    placed = place_numbers(numbers, list(curves.values()), HEIGHT)
    return [row | vars(found) for row, found in zip(rows, placed, strict=True)]


def _loads(numbers: Rows, x: Spec, y: Spec) -> Spec:
    """How many sessions are open at once, beside the points of the run's own policy; fewer in a narrow picture."""
    return {
        "data": {"values": numbers},
        "mark": {
            "type": "text",
            "align": "center",
            "baseline": "middle",
            "dx": {"expr": "datum.dx"},
            "dy": {"expr": "datum.dy"},
            "fontSize": 11,
            "aria": False,
        },
        "encoding": {
            "x": {"field": "interactivity_p10"} | x,
            "y": {"field": "tokens_per_gpu_s"} | y,
            "text": {
                "condition": {"test": "width >= datum.least_width", "field": "sessions_at_once"},
                "value": "",
            },
        },
    }


def _floor(floor: float, x: Spec) -> Spec:
    return {
        "data": {"values": [{"floor": floor}]},
        "mark": {"type": "rule", "strokeDash": [5, 4], "strokeWidth": 1.5},
        "encoding": {"x": {"field": "floor"} | x},
    }


def _headline(table: Rows, floor: float, *, is_compared: bool) -> Spec:
    """The best of what meets the goal: a load that loses requests is no answer to how many can be served."""
    below = f"dashed: the floor of {floor:g} tokens/s; numbers: sessions at once of this run's policy"
    if not is_compared:
        return headline(
            _alone(table[0], floor), f"dashed: the floor of {floor:g} tokens/s; number: sessions at once"
        )
    kept = [row for row in table if row["interactivity_p10"] >= floor]
    served = [row for row in kept if row["completed_share"] >= LEAST_COMPLETED]
    if not kept:
        return headline(f"No load keeps the floor of {floor:g} tokens/s", below)
    if not served:
        return headline(
            f"No load keeps the floor of {floor:g} tokens/s and completes {LEAST_COMPLETED:.0%} of its requests",
            below,
        )
    best = max(served, key=lambda row: row["tokens_per_gpu_s"])
    return headline(
        f"Best above the floor: {best['policy']} with {best['sessions_at_once']} at once, "
        f"{best['tokens_per_gpu_s']:.1f} tokens a GPU-second",
        below,
    )


def _alone(row: dict[str, Any], floor: float) -> str:
    """What is said of the one point of a run without comparison."""
    said = f"{row['policy']}: {row['tokens_per_gpu_s']:.1f} tokens a GPU-second"
    if row["completed_share"] < LEAST_COMPLETED:
        return f"{said}, but only {percent(row['completed_share'])} of the requests completed"
    return f"{said}, the floor {'kept' if row['interactivity_p10'] >= floor else 'not kept'}"
