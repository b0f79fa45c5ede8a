"""What binds a run: the shares of its modelled time as one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from labs.labels import label

# Of shares of modelled time: what binds, with its verb.
BINDING = {
    "hbm_bandwidth": ("HBM bandwidth", "binds"),
    "flops": ("FLOPs", "bind"),
    "links": ("Links", "bind"),
    "barrier_wait": ("Waiting at the barrier", "takes"),
    "kv_capacity": ("KV capacity", "binds"),
    "host": ("Work on CPUs", "takes"),
    "queue": ("Waiting for others", "takes"),
}


@dataclass(frozen=True)
class Binding:
    """What binds the modelled time, the largest share first; `before`: the same under the baseline."""

    sentence: str
    before: str


def what_binds(metrics: Mapping[str, Any]) -> Binding | None:
    """From the metrics share_X and share_X_before, fractions of what the lab models; None where there is none."""
    after = shares(metrics, before=False)
    if not after:
        return None
    (name, share), *others = after
    what, verb = BINDING.get(name, (label(name), "binds"))
    sentence = f"{what} {verb} {whole_percent(share)} of the modelled time{listing(others, '; ')}."
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
    """`; waiting at the barrier 28%, FLOPs 9%`; what rounds to nothing is left out."""
    parts = []
    for name, share in found:
        if share >= 0.0005:
            what = BINDING.get(name, (label(name), ""))[0]
            parts.append(
                f"{what if what[:2].isupper() else what[:1].lower() + what[1:]} {whole_percent(share)}"
            )
    return start + ", ".join(parts) if parts else ""
