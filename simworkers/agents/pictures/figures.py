"""The pictures of an agent run, drawn from its report alone. Every title says what one sees."""

from dataclasses import replace

from simworkers.agents.job import AGENT_ROUTING
from simworkers.agents.pictures.cost_figure import draw_cost, price_of_tokens
from simworkers.agents.pictures.hit_rate_figure import draw_hit_rate
from simworkers.agents.pictures.throughput_figure import draw_throughput
from simworkers.agents.pictures.time_figures import draw_load, draw_residency
from simworkers.agents.pictures.turn_figures import draw_turn_tokens, turns_shown
from simworkers.drawing import finish
from simworkers.jobs import Figure, FigureSpec, Report

_DRAWERS = {
    "turn-tokens": draw_turn_tokens,
    "hit-rate-by-policy": draw_hit_rate,
    "throughput-interactivity": draw_throughput,
    "load-by-replica": draw_load,
    "kv-residency": draw_residency,
    "cost": draw_cost,
}

# Title and caption of the figures that compare, for a run that is compared with none.
_ALONE = {
    "hit-rate-by-policy": (
        "Hit rate, against a cache that has no end",
        "What this run found in caches. The line is what one replica with endless KV would find.",
    ),
    "throughput-interactivity": (
        "Throughput against interactivity",
        "The point is this run: tokens a GPU-second upwards, tokens a second to each user to the right. The line is "
        "the floor.",
    ),
    "cost": (
        "What a session costs, and what the GPUs did for it",
        "GPU-hours × price ÷ sessions; the bar is the run's GPU time by what it went to.",
    ),
}
# What a caption says of the run itself.
_OF_THIS_RUN = {"turn-tokens": turns_shown, "cost": price_of_tokens}
# Of a recorded trace, whose rows come when they come, or of a lone session: one load a policy.
_ONE_LOAD = (
    "Each point is a policy under the same load: tokens a GPU-second upwards, tokens a second to each user to the "
    "right. The line is the floor."
)


def draw(report: Report) -> dict[str, Figure]:
    """Every figure of the catalogue, by name."""
    drawn = {}
    for figure in AGENT_ROUTING.figures:
        spec, table = _DRAWERS[figure.name](report.metrics, report.params)
        drawn[figure.name] = finish(_as_played(figure, report), spec, table)
    return drawn


def _as_played(figure: FigureSpec, report: Report) -> FigureSpec:
    """The catalogue names a figure before any run; a run may have less to show, and says what of it is not there."""
    curves = report.metrics["curves"]
    if not curves and figure.name in _ALONE:
        title, caption = _ALONE[figure.name]
        figure = replace(figure, title=title, caption=caption)
    if figure.name == "throughput-interactivity" and len({row["sessions_at_once"] for row in curves}) == 1:
        return replace(figure, caption=_ONE_LOAD)
    if figure.name in _OF_THIS_RUN:
        return replace(
            figure, caption=f"{figure.caption} {_OF_THIS_RUN[figure.name](report.metrics)}".rstrip()
        )
    return figure
