"""References of the multimodal lab's tasks, run as graded runs are."""

import functools

from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.simulate import simulate
from tests.simworkers.tasks import SEEDS, Tasks, silent

__all__ = [
    "KINDS",
    "SEEDS",
    "instance",
    "measured",
    "references",
    "result",
    "rubric",
    "share",
    "sheet",
    "silent",
]


def measured(kind, seed, who):
    """The metrics of this reference's graded run."""
    params = MultimodalParams.model_validate(instance(kind, seed).params | references(kind, seed)[who].params)
    return _measured(params.model_dump_json(), instance(kind, seed).seed)


@functools.cache
def _measured(params_json, seed):
    return simulate(MultimodalParams.model_validate_json(params_json), seed, silent).metrics


TASKS = Tasks("multimodal-cache", measured)
KINDS, instance, references = TASKS.kinds, TASKS.instance, TASKS.references
rubric, sheet, share, result = TASKS.rubric, TASKS.sheet, TASKS.share, TASKS.result
