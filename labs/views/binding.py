"""What binds a run: the shares of its time as one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Of which time the shares are, by lab; GPU time is not what users wait.
SHARES_OF = {
    "moe-eplb": "all GPU time",
    "multimodal-cache": "the time that users wait",
    "agent-routing": "the time that requests take",
}
# What binds, with its verb, in the words of figures.
BINDING = {
    "hbm_bandwidth": ("HBM bandwidth", "binds"),
    "flops": ("FLOPs", "bind"),
    "links": ("links", "bind"),
    "barrier_wait": ("barrier waiting", "takes"),
    "kv_capacity": ("KV capacity", "binds"),
    "host": ("host time", "takes"),
    "queue": ("queueing", "takes"),
}


@dataclass(frozen=True)
class Binding:
    """What binds, the largest share first; `before`: the same under the baseline."""

    sentence: str
    before: str


def what_binds(lab: str, metrics: Mapping[str, Any]) -> Binding | None:
    """From the metrics share_X and share_X_before, fractions of what the lab models; None where there is none.

    Of a lab that reports how busy GPUs are, it says how long they idle as well."""
    after = shares(metrics, before=False)
    if not after or not after[0][1]:
        return None
    (name, share), *others = after
    what, verb = BINDING.get(name, (name.replace("_", " "), "binds"))
    of = SHARES_OF.get(lab, "the modelled time")
    sentence = f"Of {of}, {what} {verb} {whole_percent(share)}{listing(others, '; ')}."
    if "busy_share" in metrics:
        sentence += f" GPUs are idle {whole_percent(1 - metrics['busy_share'])} of the run."
    before = shares(metrics, before=True)
    return Binding(sentence, f"Before: {listing(before, '')}." if before else "")


def whole_percent(share: float) -> str:
    """Without places, except where that would round it away."""
    return f"{100 * share:.0f}%" if share >= 0.01 else f"{100 * share:.1f}%"


def shares(metrics: Mapping[str, Any], *, before: bool) -> list[tuple[str, float]]:
    """(what, share), the largest first; in the order of the report where equal."""
    found = [
        (name.removeprefix("share_").removesuffix("_before"), value)
        for name, value in metrics.items()
        if name.startswith("share_") and name.endswith("_before") == before and value is not None
    ]
    return sorted(found, key=lambda pair: -pair[1])


def listing(found: list[tuple[str, float]], start: str) -> str:
    """`; barrier waiting 28%, FLOPs 9%`; what rounds to nothing is left out."""
    parts = []
    for name, share in found:
        if share >= 0.0005:
            what = BINDING.get(name, (name.replace("_", " "), ""))[0]
            parts.append(f"{what} {whole_percent(share)}")
    return start + ", ".join(parts) if parts else ""
