"""Time and memory of multimodal runs: `python -m tests.bench.bench_multimodal`. Asserts nothing.

Each run has a process of its own, so that its memory is its own. The bounds of parameters (`expected_us`) rest on this.
"""

import json
import subprocess
import sys
from typing import Any

from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.work import MAX_WORK_US, expected_us

NO_CACHES: dict[str, Any] = {
    "prefix_caching": False,
    "encoder_caching": False,
    "preprocess_cache_mb": 0.0,
}
# Near the largest that is allowed, each in another direction.
LARGEST: dict[str, dict[str, Any]] = {
    "large images": {"users": 8, "turns": 6, "second_picture_turn": 4, "max_image_tokens": 640},
    "large files": {
        "users": 2,
        "turns": 4,
        "image_width_px": 4096,
        "image_height_px": 4096,
        "client": "jpeg",
    },
    "long chats": {
        "users": 5,
        "turns": 8,
        "max_image_tokens": 64,
        "question_tokens": 400,
        "answer_tokens": 128,
        "kv_blocks": 4096,
        "token_budget": 1024,
    },
}
SCENES = {"default": {}, "default, no caches": NO_CACHES} | {
    name: NO_CACHES | values for name, values in LARGEST.items()
}

RUN = """
import json, resource, sys, time
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.simulate import simulate, warm
params = MultimodalParams.model_validate(json.loads(sys.argv[1]))
warm()
wall, cpu = time.perf_counter(), time.process_time()
told = [wall]
simulate(params, 0, lambda done, total: told.append(time.perf_counter()))
gap = max(later - earlier for earlier, later in zip(told, told[1:]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall, gap, peak]))
"""


def main() -> None:
    print(f"estimates above {MAX_WORK_US / 1e6:.0f} s are refused")
    print("scene                CPU s   wall s   longest silence s   peak MiB   estimate s")
    for name, values in SCENES.items():
        estimate = expected_us(MultimodalParams.model_validate(values).model_dump()) / 1e6
        done = subprocess.run(
            [sys.executable, "-c", RUN, json.dumps(values)], capture_output=True, text=True, check=True
        )
        cpu, wall, gap, peak = json.loads(done.stdout)
        print(f"{name:20} {cpu:5.1f} {wall:8.1f} {gap:15.2f} {peak:14.0f} {estimate:12.1f}")


if __name__ == "__main__":
    main()
