"""What a step of a replica takes: rooflines of its parts, in whole femtoseconds, linear in the context.

A step is one round of the replica's pipeline. With one stage it is a forward pass over the batch. With P stages the
batch is cut into P micro-batches that follow one another through the stages; the slowest sets the pace, so a round
lasts P times its longest stage, and a batch too small to fill the pipeline leaves stages idle.

Sums of such steps have a closed form, which is why time is counted in femtoseconds: whole, so that no order of adding
can change it, and so fine that the price of one query-key pair (about 800) is whole too.
"""

from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

from simworkers.agents.serving.profiles import ACTIVATION_BYTES, ServedModel
from simworkers.hardware import GpuProfile

FS_PER_S = 10**15
FS_PER_US = 10**9


class StepTime(NamedTuple):
    """Femtoseconds of a step by what binds them, and by how much the two attention parts grow from step to step when
    the same batch goes on: `hbm` and `flops` are those of the first step."""

    hbm: int
    flops: int
    links: int
    host: int
    hbm_growth: int = 0
    flops_growth: int = 0

    @property
    def first(self) -> int:
        return self.hbm + self.flops + self.links + self.host

    @property
    def growth(self) -> int:
        return self.hbm_growth + self.flops_growth

    def total(self, steps: int) -> int:
        """Of so many steps, one after the other."""
        return steps * self.first + self.growth * (steps * (steps - 1) // 2)

    def completed(self, span: int) -> int:
        """The most steps that take no longer than `span`, exactly: the root of their total's quadratic."""
        first, growth = self.first, self.growth
        if not growth:
            return span // first
        linear = 2 * first - growth
        return (isqrt(linear * linear + 8 * growth * span) - linear) // (2 * growth)


@dataclass
class BusyTime:
    """Femtoseconds of all steps so far, by what bound them."""

    hbm: int = 0
    flops: int = 0
    links: int = 0
    host: int = 0

    def add(self, step: StepTime, first: int, last: int) -> None:
        """Steps first + 1 … last of a stretch."""
        steps, growths = last - first, last * (last - 1) // 2 - first * (first - 1) // 2
        self.hbm += steps * step.hbm + growths * step.hbm_growth
        self.flops += steps * step.flops + growths * step.flops_growth
        self.links += steps * step.links
        self.host += steps * step.host

    @property
    def total(self) -> int:
        return self.hbm + self.flops + self.links + self.host


class Batch(NamedTuple):
    """What a step computes: decoding requests with the KV that they read, and prefill chunks.

    prefill_pairs: query-key pairs of one layer and head; pairs_growth: more of them in the next step.
    """

    decodes: int
    context_tokens: int
    prefill_tokens: int
    prefill_pairs: int = 0
    pairs_growth: int = 0


class StepCost:
    """Steps of one replica: a model over tensor_parallel × pipeline_parallel GPUs.

    Weights are spread evenly, and KV as far as its parts go (`kv_shards`). Tensor parallelism adds two ring all-reduces
    of the hidden states a layer, each with a start-up time; a pipeline hands them on once a stage. Chunks of one step
    lie in micro-batches one after the other, `token_budget` tokens each.
    """

    def __init__(
        self,
        model: ServedModel,
        gpu: GpuProfile,
        tensor_parallel: int = 1,
        pipeline_parallel: int = 1,
        *,
        token_budget: int,
        step_overhead_us: int = 0,
        collective_us: int = 0,
    ) -> None:
        if model.precision not in gpu.flops_per_s:
            raise ValueError(f"gpu: the {gpu.name} has no {model.precision} arithmetic")
        self.model, self.stages, self.token_budget = model, pipeline_parallel, token_budget
        bandwidth = gpu.hbm_bytes_per_s * tensor_parallel
        self._read_fs_per_mb = round(FS_PER_S * 1_000_000 / bandwidth)
        self._token_fs = round(
            2 * model.active_weights * FS_PER_S / (gpu.flops_per_s[model.precision] * tensor_parallel)
        )
        pair_flops = 2 * model.layers * model.attention_width
        self._pair_fs = round(pair_flops * FS_PER_S / (gpu.flops_per_s["bf16"] * tensor_parallel))
        kv_bytes = model.kv_bytes_per_token * model.kv_copies(tensor_parallel)
        self._kv_fs = round(kv_bytes * FS_PER_S / bandwidth)
        sent_bytes = model.hidden * ACTIVATION_BYTES
        ring_bytes = 2 * model.layers * 2 * sent_bytes * (tensor_parallel - 1) / tensor_parallel
        hops = pipeline_parallel - 1
        self._link_token_fs = round((ring_bytes + hops * sent_bytes) * FS_PER_S / gpu.nvlink_bytes_per_s)
        collectives = (2 * model.layers if tensor_parallel > 1 else 0) + hops
        self._link_fs = collectives * collective_us * FS_PER_US
        self._host_fs = step_overhead_us * FS_PER_US
        self._weights_fs: dict[int, int] = {}

    def chunk_room(self, decodes: int) -> int:
        """Prefill tokens that fit a step beside so many decoding requests."""
        return self.stages * max(self.token_budget - -(-decodes // self.stages), 0)

    def step(self, batch: Batch) -> StepTime:
        """The first step of a batch, and how the following ones grow."""
        stages = self.stages
        decodes, chunk = -(-batch.decodes // stages), batch.prefill_tokens
        pairs, pairs_growth = batch.prefill_pairs, batch.pairs_growth
        if stages > 1 and chunk:
            longest = min(
                chunk, self.token_budget - decodes
            )  # the fullest micro-batch, and its share of the pairs
            pairs, pairs_growth = pairs * longest // chunk, pairs_growth * longest // chunk
            chunk = longest
        tokens = decodes + chunk
        weights_fs, products_fs = self._read_fs(tokens), tokens * self._token_fs
        is_hbm = weights_fs >= products_fs
        kv_fs = self._kv_fs // max(min(stages, batch.decodes), 1)  # contexts are spread over micro-batches
        return StepTime(
            hbm=(weights_fs if is_hbm else 0) + kv_fs * batch.context_tokens,
            flops=(0 if is_hbm else products_fs) + pairs * self._pair_fs,
            links=self._link_fs + tokens * self._link_token_fs,
            host=self._host_fs,
            hbm_growth=kv_fs * batch.decodes,
            flops_growth=pairs_growth * self._pair_fs,
        )

    def _read_fs(self, tokens: int) -> int:
        found = self._weights_fs.get(tokens)
        if found is None:
            found = self.model.read_bytes(tokens) * self._read_fs_per_mb // 1_000_000
            self._weights_fs[tokens] = found
        return found
