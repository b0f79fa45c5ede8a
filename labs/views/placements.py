"""The scene of a placement task, for the editor that shows slots by GPU and node."""

from typing import Any

from labs.models import TaskAttempt

PLACEMENT = "placement"
SHAPE = ("num_layers", "num_experts", "num_gpus", "num_nodes", "num_groups", "redundant_slots_per_gpu")


def placement_scene(attempt: TaskAttempt) -> dict[str, Any] | None:
    """Sizes, the observed load [layer][expert], the balancer's placement [layer][slot] where the task shows it, and
    whether all copies of a group must lie in one node.

    None where the instance is of another shape; the field is then plain JSON.
    """
    drawn = attempt.instance["params"] if attempt.instance else {}
    load = (attempt.visible or {}).get("observed_load")
    if load is None or any(name not in drawn for name in SHAPE):
        return None
    layers, experts, gpus, nodes, groups, redundant = (drawn[name] for name in SHAPE)
    divides = nodes > 1 and groups % nodes == 0 and experts % groups == 0
    return {
        "layers": layers,
        "experts": experts,
        "gpus": gpus,
        "nodes": nodes,
        "groups": groups,
        "slots": experts + redundant * gpus,
        "load": load,
        "balancer": (attempt.visible or {}).get("balancer_placement"),
        "groups_stay_in_node": divides and drawn.get("eplb_policy") != "global",
    }


def start_of(scene: dict[str, Any] | None) -> dict[str, Any]:
    """Contiguous: every expert at home, and each GPU's spare slots hold its own first expert, which helps nobody."""
    if scene is None:
        return {}
    home, per_gpu = scene["experts"] // scene["gpus"], scene["slots"] // scene["gpus"]
    row = [
        gpu * home + (slot if slot < home else 0) for gpu in range(scene["gpus"]) for slot in range(per_gpu)
    ]
    return {PLACEMENT: [row] * scene["layers"]}
