"""What the figures of the MoE lab share: the two placements and the GPU axis."""

from simworkers.drawing import BLUE, ORANGE, Spec

BEFORE, AFTER = "contiguous", "chosen setting"
PLACEMENTS = {BEFORE: ORANGE, AFTER: BLUE}


def gpu_axis(gpus: int) -> Spec:
    return {
        "field": "gpu",
        "type": "ordinal",
        "title": "GPU",
        "axis": {"labelAngle": 0, "labelOverlap": True, "ticks": gpus <= 16, "domain": True},
    }


def placement_offset() -> Spec:
    return {"field": "placement", "type": "nominal", "scale": {"domain": list(PLACEMENTS)}}
