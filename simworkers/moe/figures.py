"""The pictures of an MoE run, drawn from its report alone. Every title says what one sees."""

from simworkers.drawing import finish
from simworkers.jobs import Figure, Report
from simworkers.moe.job import MOE_EPLB
from simworkers.moe.load_figures import draw_gpu_tokens, draw_imbalance
from simworkers.moe.resource_figures import draw_hbm_ledger, draw_step_time, draw_what_binds

_DRAWERS = {
    "gpu-tokens": draw_gpu_tokens,
    "step-time": draw_step_time,
    "hbm-ledger": draw_hbm_ledger,
    "what-binds": draw_what_binds,
    "imbalance": draw_imbalance,
}


def draw(report: Report) -> dict[str, Figure]:
    """Every figure of the catalogue, by name."""
    drawn = {}
    for figure in MOE_EPLB.figures:
        spec, table = _DRAWERS[figure.name](report.metrics)
        drawn[figure.name] = finish(figure, spec, table)
    return drawn
