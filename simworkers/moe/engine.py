"""The engine that a run drives: traffic in, experts at work, load recorded, placement changed between steps.

L layers, E experts, G GPUs, S slots, T tokens a step, k experts a token.
"""

from dataclasses import dataclass

import numpy as np
import torch

from simworkers.hardware import GPUS, MODELS
from simworkers.jobs import Progress
from simworkers.moe.checks import SHUFFLE_TOLERANCE, Checks
from simworkers.moe.cost import CostModel
from simworkers.moe.experts import SlotTable, count_pairs, dispatch
from simworkers.moe.gate import library_of, route
from simworkers.moe.params import MoeParams
from simworkers.moe.placement import IntArray, Placement, place_contiguously
from simworkers.moe.planning import plan, rebalances_before
from simworkers.moe.shuffle import Move, move_weights, plan_move
from simworkers.moe.stack import ExpertStack
from simworkers.moe.tally import Tally
from simworkers.rng import Stream
from simworkers.text import draw_traffic

PROBE_TOKENS = 256  # tokens that are run before and after every shuffle


@dataclass(frozen=True)
class StepCounts:
    """Token copies of one step; integers from the dispatch that really ran."""

    experts: IntArray  # [L, E]
    slots: IntArray  # [L, S]
    sent: IntArray  # [L, G, G] from GPU to GPU, where the experts lie now
    sent_before: IntArray  # [L, G, G] the same under contiguous placement


class Engine:
    """Holds weights, placement and recorded load; `run` drives all steps."""

    def __init__(self, params: MoeParams, seed: int, progress: Progress, device: str) -> None:
        self.params, self.progress = params, progress
        self.total_steps = params.warmup_steps + params.num_steps
        self.done_steps = 0
        self.library = library_of(params)
        self.traffic = [
            draw_traffic(
                self.library,
                params.mix(),
                params.tokens_per_step,
                params.chunk_tokens,
                Stream(seed, "traffic", step),
            )
            for step in range(self.total_steps)
        ]
        self.routes = route(
            self.library,
            np.concatenate([traffic.positions for traffic in self.traffic]),
            params,
            self.tick,
        )
        self.stack = ExpertStack(params, device, self.tick)
        self.contiguous = place_contiguously(params.num_layers, params.num_experts, params.num_gpus)
        self.placement, self.tables = self.contiguous, _tables(self.contiguous)
        self.counts: list[IntArray] = []  # W + N × [L, E], warm-up steps first
        self.cost = CostModel(
            GPUS[params.gpu_profile],
            MODELS[params.model_profile],
            params.weight_precision,
            params.num_gpus,
            params.num_nodes,
        )
        self.before, self.chosen = Tally(), Tally()
        self.expert_load = np.zeros((params.num_layers, params.num_experts), dtype=np.int64)
        self.moves: list[tuple[int, Move]] = []  # (measured step, move)
        self.shuffle_difference = 0.0
        self.checks = Checks()

    def run(self) -> None:
        """All steps; the warm-up ones record load and count nothing."""
        params = self.params
        self.checks.placement("start", self.placement, 1, 1)
        for step in range(self.total_steps):
            measured = step - params.warmup_steps
            if rebalances_before(params, measured):
                self._rebalance(step, measured)
            counts = self._step(step)
            self.counts.append(counts.experts)
            if measured >= 0:
                self._count(counts)
            self.done_steps = step + 1
            self.tick()
        self.checks.weights("end", self.stack.slots, self.placement, self.stack.known, self.tick)

    def _step(self, step: int) -> StepCounts:
        params = self.params
        layers, gpus, tokens = params.num_layers, params.num_gpus, params.tokens_per_step
        num_slots = self.placement.experts.shape[1]
        positions = self.traffic[step].positions
        rows = self.routes.row[positions]
        origin = np.repeat(np.arange(tokens) * gpus // tokens, params.top_k)  # [A] GPU where the token lives
        hidden = self.stack.embed(self.library.tokens[positions])
        counts = StepCounts(
            experts=np.empty((layers, params.num_experts), dtype=np.int64),
            slots=np.empty((layers, num_slots), dtype=np.int64),
            sent=np.empty((layers, gpus, gpus), dtype=np.int64),
            sent_before=np.empty((layers, gpus, gpus), dtype=np.int64),
        )
        for layer in range(layers):
            experts = self.routes.experts[layer][rows]  # [T, k]
            sent = dispatch(experts, self.tables[layer])
            self.checks.dispatch(f"step {step} layer {layer}", experts, sent, self.placement, layer)
            hidden = self.stack.layer(hidden, self.routes.logits[layer][rows], sent, layer)
            flat = experts.reshape(-1)
            counts.experts[layer] = np.bincount(flat, minlength=params.num_experts)
            counts.slots[layer] = sent.counts
            counts.sent[layer] = count_pairs(origin[sent.order], sent.slot // (num_slots // gpus), gpus)
            counts.sent_before[layer] = count_pairs(origin, flat // (params.num_experts // gpus), gpus)
            self.tick()
        return counts

    def _count(self, counts: StepCounts) -> None:
        layers, gpus = self.params.num_layers, self.params.num_gpus
        self.expert_load += counts.experts
        for tally, slots, sent in (
            (self.before, counts.experts, counts.sent_before),
            (self.chosen, counts.slots, counts.sent),
        ):
            tally.add(slots.reshape(layers, gpus, -1).sum(axis=2), self.cost.price(slots, sent))

    def _rebalance(self, step: int, measured: int) -> None:
        """Place anew for the recorded load and move the weights; the step that follows finds them in place."""
        params = self.params
        placement = plan(params, np.sum(self.counts[-params.window_steps :], axis=0))
        where = f"rebalance before step {step}"
        self.checks.placement(where, placement, params.num_groups, params.num_nodes)
        if self.checks.invariants["experts_placed"].state == "broken":
            return  # the old placement still serves every token
        inputs, outputs = self._probe(step)
        move = plan_move(self.placement, placement)
        self.stack.slots = move_weights(self.stack.slots, move)
        self.placement, self.tables = placement, _tables(placement)
        self.moves.append((measured, move))
        self.checks.weights(where, self.stack.slots, placement, self.stack.known, self.tick)
        _, moved_outputs = self._probe(step, inputs)
        self._compare(where, outputs, moved_outputs)

    def tick(self) -> None:
        """A sign of life."""
        self.progress(self.done_steps, self.total_steps)

    def _probe(
        self, step: int, inputs: list[torch.Tensor] | None = None
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """(inputs, outputs) of every layer, [T', H] each, for the step's first tokens; counted nowhere.

        Given inputs, every layer starts from its own, so that one layer's rounding does not grow through the next.
        """
        positions = self.traffic[step].positions[:PROBE_TOKENS]
        rows = self.routes.row[positions]
        hidden = self.stack.embed(self.library.tokens[positions])
        entered, left = [], []
        for layer in range(self.params.num_layers):
            hidden = inputs[layer] if inputs is not None else hidden
            entered.append(hidden)
            sent = dispatch(self.routes.experts[layer][rows], self.tables[layer])
            hidden = self.stack.layer(hidden, self.routes.logits[layer][rows], sent, layer)
            left.append(hidden)
            self.tick()
        return entered, left

    def _compare(self, where: str, old: list[torch.Tensor], new: list[torch.Tensor]) -> None:
        for layer, (before, after) in enumerate(zip(old, new, strict=True)):
            difference = float((before - after).abs().max() / before.abs().max())
            self.shuffle_difference = max(self.shuffle_difference, difference)
            if not difference <= SHUFFLE_TOLERANCE:
                event = f"{where}: layer {layer} outputs differ by {difference:.1e} of the largest one"
                self.checks.break_("outputs_equal_across_shuffle", event)


def _tables(placement: Placement) -> list[SlotTable]:
    return [SlotTable(placement, layer) for layer in range(len(placement.experts))]
