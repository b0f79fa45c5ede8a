"""What the figures of the MoE lab share: the two placements, the GPU axis, the headline."""

from typing import Any

from simworkers.drawing import BLUE, ORANGE

BEFORE, AFTER = "contiguous", "chosen setting"
PLACEMENTS = {BEFORE: ORANGE, AFTER: BLUE}

Spec = dict[str, Any]
Rows = list[dict[str, Any]]


def gpu_axis(gpus: int) -> Spec:
    return {
        "field": "gpu",
        "type": "ordinal",
        "title": "GPU",
        "axis": {"labelAngle": 0, "labelOverlap": True, "ticks": gpus <= 16, "domain": True},
    }


def placement_offset() -> Spec:
    return {"field": "placement", "type": "nominal", "scale": {"domain": list(PLACEMENTS)}}


def headline(text: str | Spec, below: str) -> Spec:
    return {"text": text, "subtitle": below, "subtitleFontSize": 12, "offset": 12}
