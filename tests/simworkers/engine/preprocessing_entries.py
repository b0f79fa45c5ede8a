"""What the test of preprocessing has a simulation's process do."""

import io
import os
import time
from pathlib import Path
from typing import Any

from PIL import Image

from simworkers.engine.patches import ProcessorArgs
from simworkers.engine.preprocessing import Preprocessor
from simworkers.job_entries import Progress

ARGS = ProcessorArgs()


def png(shade: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (1280, 800), (shade, shade, shade)).save(stream, "PNG")
    return stream.getvalue()


def preprocess(progress: Progress) -> dict[str, Any]:
    with Preprocessor(workers=2) as pool:
        images = pool.process_many([png(shade) for shade in range(4)], ARGS)
        pids = [worker.process.pid for worker in pool._workers if worker.process]
        groups = [os.getpgid(pid) for pid in pids]
    return {"tokens": [image.num_tokens for image in images], "groups": groups, "own": os.getpgid(0)}


def preprocess_and_hang(progress: Progress, pid_file: str) -> None:
    pool = Preprocessor(workers=1)
    pool.process(png(0), ARGS)
    assert pool._workers[0].process is not None
    Path(pid_file).with_suffix(".draft").write_text(str(pool._workers[0].process.pid))
    Path(pid_file).with_suffix(".draft").rename(pid_file)
    time.sleep(3600)


ENTRIES = {entry.__name__: entry for entry in (preprocess, preprocess_and_hang)}
