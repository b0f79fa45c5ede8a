"""A measured grid as data: axes, units, values."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel

from simworkers.catalog import engine_version, get_job
from simworkers.jobs import Axis, SweepData, SweepMetric


def tabulate(
    lab: str,
    seed: int,
    scene: BaseModel,
    grid: dict[str, list[Any]],
    lines: str,
    names: Sequence[str],
    measured: Sequence[dict[str, float]],
) -> SweepData:
    """scene: the parameters that all points share. lines: the axis that charts compare. measured: every point in the
    order of the axes, the last fastest."""
    shape = [len(values) for values in grid.values()]
    params = get_job(lab).params.model_json_schema()["properties"]
    fields = get_job(lab).metrics.model_json_schema()["properties"]
    return SweepData(
        lab=lab,
        engine_version=engine_version(lab),
        seed=seed,
        params={name: value for name, value in scene.model_dump().items() if name not in grid},
        axes=[Axis(name=name, unit=params[name]["unit"], values=values) for name, values in grid.items()],
        lines=lines,
        metrics=[
            SweepMetric(
                name=name,
                unit=fields[name]["unit"],
                description=fields[name]["description"],
                values=np.array([point[name] for point in measured], dtype=object).reshape(shape).tolist(),
            )
            for name in names
        ],
    )
