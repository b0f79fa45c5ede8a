"""Token ids behind the block ids of a trace, so that an engine can compute what a trace only counts."""

from collections.abc import Sequence
from itertools import pairwise

from simworkers.agents.serving.workload import Turn, Workload, requests_in_order
from simworkers.agents.traffic.traces import Session, Trace, TraceRequest
from simworkers.rng import Stream

VOCABULARY = 512
Key = tuple[int, int]  # (space, block id)


class TokenBlocks:
    """Prompts of a workload's turns. Each block id stands for the same tokens wherever it occurs in its space: tokens
    of its own, or, where the trace has it behind an answer, that answer. ValueError where no tokens could do that."""

    def __init__(self, trace: Trace, workload: Workload) -> None:
        self.workload, self.block_size = workload, workload.block_size
        self._recorded = requests_in_order(trace)
        self._tokens: dict[Key, list[int]] = {}
        self._context: dict[
            int, list[int]
        ] = {}  # turn → what stands before it: the last prompt and its answer
        self._prompts: dict[int, list[int]] = {}  # of turns that have no answer yet
        self._check()

    def prompt(self, turn: Turn) -> list[int]:
        """Token ids, once everything that it waits for is answered."""
        found = self._prompts.get(turn.number)
        if found is None:
            session, request = self._recorded[turn.number]
            context, found = self._context.pop(turn.number, []), []
            for key in self._keys(session, request):
                found += self._block(key, context[len(found) : len(found) + self.block_size])
            known = context[len(found) : request.input_tokens]
            found += known
            found += self._own("tail", turn.number, request.input_tokens - len(found))
            self._prompts[turn.number] = found
        return found

    def answer(self, turn: Turn, outputs: Sequence[int]) -> None:
        """What the model said. If the agent's next prompt goes on behind this one, the answer stands in it."""
        prompt, following = self._prompts.pop(turn.number), turn.number + 1
        if following == self.workload.streams[turn.stream][1]:
            return
        keys = self._keys(*self._recorded[turn.number])
        after = self._keys(*self._recorded[following])
        if after[: len(keys)] != keys:
            return
        context = self._context[following] = [*prompt, *outputs]
        kept = sum(self.workload.run_lengths[run] for run in turn.kept)
        for place in range(len(keys), -(-len(context) // self.block_size)):
            if place == len(after):
                break
            begins = context[place * self.block_size : (place + 1) * self.block_size]
            block = self._block(after[place], begins)
            if place < len(keys) + kept and block != begins:
                raise ValueError(
                    f"trace: block {after[place][1]} is an answer, and was sent before it was given"
                )

    def _block(self, key: Key, begins: list[int]) -> list[int]:
        found = self._tokens.get(key)
        if found is None:
            found = begins + self._own("block", *key, self.block_size)[len(begins) :]
            self._tokens[key] = found
        return found

    def _own(self, *name: int | str) -> list[int]:
        *which, count = name
        return [int(word) % VOCABULARY for word in Stream(0, *which).words(int(count)).tolist()]

    def _keys(self, session: Session, request: TraceRequest) -> list[Key]:
        """Of the whole blocks."""
        whole = request.blocks[: request.input_tokens // self.block_size]
        return [(session.space, block) for block in whole.tolist()]

    def _check(self) -> None:
        before: dict[Key, Key | None] = {}
        for session, request in self._recorded:
            if not request.input_tokens:
                raise ValueError("trace: an engine has nothing to compute for a prompt without tokens")
            for last, key in pairwise([None, *self._keys(session, request)]):
                assert key is not None
                if before.setdefault(key, last) != last:
                    raise ValueError(f"trace: block {key[1]} stands behind two different blocks")
