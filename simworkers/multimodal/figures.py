"""The pictures of a multimodal run, drawn from its report alone. Every title says what one sees."""

from simworkers.drawing import finish
from simworkers.jobs import Figure, Report
from simworkers.multimodal.curve_figures import draw_encoder_workers, draw_image_tokens
from simworkers.multimodal.job import MULTIMODAL_CACHE
from simworkers.multimodal.time_figures import draw_cache_occupancy, draw_ttft_by_turn
from simworkers.multimodal.way_figure import draw_image_way

_DRAWERS = {
    "image-way": draw_image_way,
    "ttft-by-turn": draw_ttft_by_turn,
    "cache-occupancy": draw_cache_occupancy,
    "image-tokens": draw_image_tokens,
    "encoder-workers": draw_encoder_workers,
}


def draw(report: Report) -> dict[str, Figure]:
    """Every figure of the catalogue, by name."""
    drawn = {}
    for figure in MULTIMODAL_CACHE.figures:
        spec, table = _DRAWERS[figure.name](report.metrics, report.params)
        drawn[figure.name] = finish(figure, spec, table)
    return drawn
