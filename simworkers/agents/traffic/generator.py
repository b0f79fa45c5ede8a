"""Synthetic agent sessions whose figures are those of a published corpus.

`python -m simworkers.agents.traffic.generator` writes them.

A session is one agent. Each turn sends the whole context again, and the context grows by the answer and by what a tool
gave back; near the model's window it is compacted to its first part and a summary. Some sessions start subagents,
which run beside one another while their parent waits. How the tables were fitted: docs/labs/agent-traces.md.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from simworkers.agents.traffic.quantiles import Quantiles
from simworkers.agents.traffic.trace_writing import write_trace
from simworkers.agents.traffic.traces import Session, Trace, TraceRequest
from simworkers.fields import form
from simworkers.rng import Stream

GLOBAL = -1  # the space of sessions that share block ids

TURNS = Quantiles(((0, 3), (50, 10), (250, 25), (500, 44), (750, 78), (900, 140), (990, 300), (1000, 420)))
START_TOKENS = Quantiles(((0, 18_000), (350, 30_000), (550, 80_000), (900, 160_000), (1000, 200_000)))
PREFIX_TOKENS = Quantiles(((0, 13_000), (1000, 16_000)))  # system prompt and tools, which compaction keeps
WINDOW_TOKENS = Quantiles(((0, 190_000), (520, 200_000), (521, 430_000), (1000, 520_000)))
SUMMARY_TOKENS = Quantiles(((0, 8_000), (500, 15_000), (1000, 40_000)))
RESULT_TOKENS = Quantiles(
    ((0, 20), (250, 50), (500, 140), (750, 850), (900, 4_500), (970, 15_000), (995, 62_000), (1000, 150_000))
)
OUTPUT_TOKENS = Quantiles(
    ((0, 20), (100, 70), (500, 200), (750, 420), (900, 850), (980, 2_000), (1000, 8_000))
)
THINK_MS = Quantiles(
    ((0, 50), (250, 2_000), (500, 8_000), (750, 45_000), (900, 240_000), (970, 900_000), (1000, 7_200_000))
)
TOOL_MS = Quantiles(
    ((0, 20), (500, 1_500), (900, 12_000), (990, 60_000), (1000, 300_000))
)  # a subagent's think time
FIRST_TOKEN_MS = Quantiles(((0, 400), (500, 1_800), (900, 5_000), (990, 20_000), (1000, 90_000)))
TOKEN_US = Quantiles(((0, 8_000), (500, 14_000), (1000, 30_000)))  # of a session, for every output token
SPAWNS = Quantiles(((0, 1), (500, 1), (800, 2), (1000, 5)))  # turns after which subagents start
BESIDE = Quantiles(((0, 1), (600, 1), (900, 3), (1000, 5)))  # subagents that start together
SUB_TURNS = Quantiles(((0, 2), (500, 7), (900, 18), (1000, 40)))
SUB_START_TOKENS = Quantiles(((0, 8_500), (500, 12_000), (1000, 20_000)))
SUB_PREFIX_TOKENS = Quantiles(((0, 7_000), (1000, 8_500)))


class GeneratorSpec(BaseModel):
    """What is generated. The defaults give the published figures."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    num_sessions: int = Field(
        24, ge=1, le=2000, description="Agent sessions.", json_schema_extra=form("Sessions", "sessions")
    )
    turns_percent: int = Field(
        100,
        ge=1,
        le=400,
        description="Turns of every session, of the published number (median 43); at least 2 stay.",
        json_schema_extra=form("Sessions", "%"),
    )
    subagent_sessions_percent: int = Field(
        44,
        ge=0,
        le=100,
        description="Sessions that start subagents.",
        json_schema_extra=form("Sessions", "%"),
    )
    context_scale_percent: int = Field(
        100,
        ge=1,
        le=100,
        description="Size of everything that is counted in tokens, of the published size (mean input 142,000).",
        json_schema_extra=form("Contexts", "%"),
    )
    block_size: int = Field(
        64,
        ge=1,
        le=1024,
        description="Tokens that share one block id.",
        json_schema_extra=form("Contexts", "tokens"),
    )
    shared_prefix_tokens: int = Field(
        0,
        ge=0,
        le=50_000,
        description="System prompt that all contexts start with, before scaling. 0: each session has its own.",
        json_schema_extra=form("Contexts", "tokens"),
    )


def generate(spec: GeneratorSpec, seed: int) -> Trace:
    """The same trace for the same (spec, seed) on every machine. Times: all sessions begin at 0."""
    count = spec.num_sessions
    turns = TURNS.spread(Stream(seed, "turns"), count) * spec.turns_percent // 100
    rank = np.argsort(np.argsort(turns, kind="stable"), kind="stable")
    starts = START_TOKENS.beside(Stream(seed, "start tokens"), rank, 0)
    windows = WINDOW_TOKENS.beside(Stream(seed, "window tokens"), rank, 1)
    with_subagents = (
        Stream(seed, "subagents").permutation(count) < (spec.subagent_sessions_percent * count + 50) // 100
    )
    trace, ids = Trace(), _Ids()
    shared = ids.new(_scaled(spec, spec.shared_prefix_tokens) // spec.block_size)
    for number in range(count):
        making = _Making(spec, Stream(seed, "session", number), ids if len(shared) else _Ids(), shared)
        plan = _Plan(max(2, int(turns[number])), int(starts[number]), int(windows[number]))
        requests = making.session(plan, bool(with_subagents[number]))
        space = GLOBAL if len(shared) else number
        ordered = tuple(sorted(requests, key=lambda request: request.at_us))
        trace.sessions.append(Session(f"synthetic_{number:04}", number, space, spec.block_size, ordered))
    return trace


def _scaled(spec: GeneratorSpec, tokens: int) -> int:
    return tokens * spec.context_scale_percent // 100


@dataclass
class _Ids:
    """Hands out block ids that nothing else has."""

    next: int = 0

    def new(self, count: int) -> NDArray[np.int64]:
        self.next += count
        return np.arange(self.next - count, self.next, dtype=np.int64)


@dataclass(frozen=True)
class _Plan:
    """One agent. Tokens before scaling."""

    turns: int
    start_tokens: int
    window_tokens: int


@dataclass
class _Making:
    """Makes one session from its own stream."""

    spec: GeneratorSpec
    stream: Stream
    ids: _Ids
    shared: NDArray[np.int64]  # blocks that every context starts with
    requests: list[TraceRequest] = field(default_factory=list)  # in file order
    subagents: int = 0

    def session(self, plan: _Plan, has_subagents: bool) -> list[TraceRequest]:
        self.token_us = self._one(TOKEN_US)
        prefix = self._prefix(PREFIX_TOKENS)
        own_prefix = self._prefix(SUB_PREFIX_TOKENS)  # of its subagents
        spawns = self._spawns(plan.turns) if has_subagents else {}
        now_us = 0
        for turn, request in enumerate(self._turns(plan, prefix, THINK_MS)):
            now_us = self._send(request, now_us, is_first=turn == 0)
            ends = [self._subagent(own_prefix, now_us) for _ in range(spawns.get(turn, 0))]
            now_us = max(ends, default=now_us)
        return self.requests

    def _one(self, table: Quantiles) -> int:
        return int(table.draw(self.stream, 1)[0])

    def _prefix(self, table: Quantiles) -> NDArray[np.int64]:
        tokens = _scaled(self.spec, self._one(table))
        return self.shared if len(self.shared) else self.ids.new(tokens // self.spec.block_size)

    def _spawns(self, turns: int) -> dict[int, int]:
        """turn → subagents that start after it; never after the last, which nothing would wait for."""
        count = min(self._one(SPAWNS), turns - 1)
        places = self.stream.permutation(turns - 1)[:count].tolist()
        return dict(zip(places, BESIDE.draw(self.stream, count).tolist(), strict=True))

    def _subagent(self, prefix: NDArray[np.int64], now_us: int) -> int:
        """Runs one from now on. When it ends, µs."""
        self.subagents += 1
        name = f"agent_{self.subagents:03}"
        plan = _Plan(self._one(SUB_TURNS), self._one(SUB_START_TOKENS), WINDOW_TOKENS.knots[0][1])
        for turn, request in enumerate(self._turns(plan, prefix, TOOL_MS)):
            now_us = self._send(replace(request, agent=name), now_us, is_first=turn == 0)
        return now_us

    def _send(self, request: TraceRequest, now_us: int, is_first: bool) -> int:
        """Puts a request at its place and time. When its answer ends, µs."""
        think_us = 0 if is_first else request.think_us or 0
        at_us = now_us + think_us
        self.requests.append(replace(request, at_us=at_us, think_us=think_us, place=len(self.requests)))
        return at_us + (request.service_us or 0)

    def _turns(self, plan: _Plan, prefix: NDArray[np.int64], pause_ms: Quantiles) -> Iterator[TraceRequest]:
        """An agent's requests without place and time, and with the service time that they would have alone."""
        draw = [
            table.draw(self.stream, plan.turns)
            for table in (OUTPUT_TOKENS, RESULT_TOKENS, SUMMARY_TOKENS, pause_ms, FIRST_TOKEN_MS)
        ]
        outputs, results, summaries = (
            np.maximum(1, tokens * self.spec.context_scale_percent // 100).tolist() for tokens in draw[:3]
        )
        pauses, first_tokens = (times.tolist() for times in draw[3:])
        window = _scaled(self.spec, plan.window_tokens)
        kept = len(prefix) * self.spec.block_size
        start = max(kept + 1, min(_scaled(self.spec, plan.start_tokens), window * 3 // 4))
        inputs = _grow(start, window, kept, outputs, results, summaries)
        for turn, (tokens, blocks) in enumerate(self._with_blocks(inputs, prefix)):
            yield TraceRequest(
                at_us=0,
                input_tokens=tokens,
                output_tokens=outputs[turn],
                blocks=blocks,
                think_us=pauses[turn] * 1000,
                service_us=first_tokens[turn] * 1000 + outputs[turn] * self.token_us,
            )

    def _with_blocks(
        self, chains: list[list[int]], prefix: NDArray[np.int64]
    ) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """(input tokens, ids of the whole blocks): all of a chain that only grows are views of one array."""
        size = self.spec.block_size
        for chain in chains:
            whole = np.concatenate([prefix, self.ids.new(chain[-1] // size - len(prefix))])
            for tokens in chain:
                yield tokens, whole[: tokens // size]


def _grow(
    start: int, window: int, kept: int, outputs: list[int], results: list[int], summaries: list[int]
) -> list[list[int]]:
    """Input tokens turn by turn, a list for each stretch between compactions.

    The next turn has the answer and a tool's result behind it. Above the window only `kept` tokens and a summary stay.
    """
    chains, context = [[start]], start
    for output, result, summary in zip(outputs[:-1], results[:-1], summaries[:-1], strict=True):
        context += output + result
        if context > window:
            context = kept + summary + result
            chains.append([])
        chains[-1].append(context)
    return chains


def main() -> None:
    """Write a generated trace to a file."""
    parser = argparse.ArgumentParser(
        prog="python -m simworkers.agents.traffic.generator", description=main.__doc__
    )
    for name, about in GeneratorSpec.model_fields.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int, default=about.default, help=about.description
        )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, help="gzip where the name ends in .gz")
    options = vars(parser.parse_args())
    seed, out = options.pop("seed"), options.pop("out")
    try:
        spec = GeneratorSpec(**options)
    except ValidationError as error:
        parser.error("; ".join(f"{found['loc'][0]}: {found['msg']}" for found in error.errors()))
    try:
        with out.open("wb") as file:
            write_trace(generate(spec, seed), file, compress=out.suffix == ".gz")
    except OSError as error:
        print(f"out: cannot write {str(out)!r}: {error.strerror}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
