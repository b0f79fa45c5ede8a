"""What fields are called on pages, their names as words or what a schema calls them, and their units."""

import re
from collections.abc import Mapping
from typing import Any

# Words that a name spells in lower case and a reader does not.
SPELLINGS = {
    "cpu": "CPU",
    "gpu": "GPU",
    "gpus": "GPUs",
    "eplb": "EPLB",
    "hbm": "HBM",
    "kv": "KV",
    "usd": "USD",
    "gb": "GB",
    "nvlink": "NVLink",
    "tflops": "TFLOP/s",
    "pp": "pipeline",
    "flops": "FLOPs",
    "moe": "MoE",
    "jpeg": "JPEG",
    "mbytes": "MB",
    "ttft": "TTFT",
    "tpot": "TPOT",
    "turn1": "turn 1",
    "turn2": "turn 2",
    "p99": "p99",
    "num": "number of",
    "german": "German",
    "spanish": "Spanish",
    "french": "French",
}
# A unit at the end of a name is shown as the unit.
UNIT_SUFFIX = re.compile(r"(?<!_per)_(gb|mb|kb|us|ms|px|s|percent)(?=_|$)")
RATE_SUFFIX = re.compile(r"_(gb|mb|bytes)_per_s(?=_|$)")
# A statistic at the end of a metric's name; in max_over_mean the mean is a part of the quantity.
STATISTIC_SUFFIX = re.compile(r"(?<!over)_(mean|max|sum)$")


def label(name: str, part: Mapping[str, Any] | None = None) -> str:
    """A name as words: redundant_slots_per_gpu → Redundant slots per GPU.

    part: what the schema says of it, in which it may be called something else. (Its `title` is no choice of anybody's:
    pydantic fills it in.)
    """
    if part and part.get("label"):
        return str(part["label"])
    bare = UNIT_SUFFIX.sub("", RATE_SUFFIX.sub("_bandwidth", name))
    words = STATISTIC_SUFFIX.sub(r"_,_\1", bare).split("_")
    text = " ".join(SPELLINGS.get(word, word) for word in words).replace(" ,", ",")
    return text[:1].upper() + text[1:]


def unit_of(part: Mapping[str, Any], params: Mapping[str, Any]) -> str:
    """A field's unit by its schema; params: of the run, on which some metrics' units hang."""
    by = part.get("unitBy")
    return str(by["units"].get(params.get(by["parameter"]), "") if by else part.get("unit", ""))
