"""What a cache counts and keeps: the four choices in which public replays of one trace differ."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Flags:
    """The defaults are what the lab's hit rate counts, `RECORDED` what the published replay counts. That a refused
    request found nothing is no flag: its tokens count in every hit rate."""

    full_hit_recompute: bool = (
        True  # the last prompt token is computed always: at most (in − 1) // block blocks hit
    )
    cache_outputs: bool = True  # an answer's KV stays, where the agent's next request continues it
    partial_blocks: bool = False  # a last block that is partly filled and has an id is kept, and can hit
    clip_oversize: bool = (
        False  # a request above the capacity keeps its head; off: it is refused, and touches nothing
    )


HIT_RATE = Flags()
RECORDED = Flags(full_hit_recompute=False, cache_outputs=False, partial_blocks=True, clip_oversize=True)
