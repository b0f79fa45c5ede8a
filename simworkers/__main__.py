"""Every lab from a shell. JSON alone on stdout, but for a plain `list` and `--metrics`; progress and errors on stderr.

Exit 0: done; what a setting broke, as where nothing is served, is its lesson and told on stderr. 1: a run broke an
invariant by a fault of ours (its report is printed all the same), or stdout cannot be written. 2: invalid input, one
`field: message` a line.
"""

import argparse
import base64
import contextlib
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from simworkers import catalog, inputs, jobs, strict_json
from simworkers.balance_file import BalanceFile
from simworkers.command_files import InvalidInput, cannot_read, read_file, read_json, writable, write_whole

if TYPE_CHECKING:
    from simworkers.agents.traffic.traces import Trace

Model = TypeVar("Model", bound=BaseModel)

EXAMPLES = """examples:
  python -m simworkers list
  python -m simworkers run moe-eplb --set eplb=true --set redundant_slots_per_gpu=1 --seed 7
  python -m simworkers run agent-routing --set policy=sticky --metrics
  python -m simworkers run multimodal-cache --image screenshot.png --set client=jpeg
  python -m simworkers run agent-routing --trace sessions.jsonl.gz
  python -m simworkers balance cases.json
  python -m simworkers replay sessions.jsonl.gz --capacity-blocks 16384
"""


class Unprinted(Exception):
    """Nobody takes what should be printed: a full disk, a reader that has gone."""


class Parser(argparse.ArgumentParser):
    """argparse whose errors are `field: message` lines."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("argument "):
            name, _, reason = message.removeprefix("argument ").partition(": ")
            raise InvalidInput(f"{name.split('/')[-1].lstrip('-')}: {reason}")
        raise InvalidInput(f"arguments: {message}")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code."""
    try:
        options = _parser().parse_args(arguments)
        code: int = options.command(options)
        return code
    except InvalidInput as error:
        print(error, file=sys.stderr)
        return 2
    except Unprinted as error:
        print(f"stdout: {error}", file=sys.stderr)
        return 1


def _parser() -> Parser:
    parser = Parser(
        prog="python -m simworkers",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    listing = commands.add_parser("list", help="every lab and its graded tasks, one a line")
    listing.add_argument(
        "--schemas", action="store_true", help="as JSON, with all that a lab takes and reports as JSON Schema"
    )
    listing.set_defaults(command=list_labs)

    _add_run(commands.add_parser("run", help="run a lab and print its report"))
    balance = commands.add_parser("balance", help="place experts for every case of a file")
    balance.add_argument(
        "file", metavar="FILE", help="JSON with `cases`: load [layer][expert] and cluster shape"
    )
    balance.set_defaults(command=balance_file)
    replay = commands.add_parser("replay", help="what one block cache would have kept of a recorded trace")
    replay.add_argument(
        "trace", metavar="TRACE", help="sessions or requests, one JSON object a line, plain or gzip"
    )
    replay.add_argument(
        "--capacity-blocks", type=int, metavar="N", help="size of the cache (default: endless)"
    )
    replay.set_defaults(command=replay_file)
    return parser


def _add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("lab", metavar="LAB", help="name of the lab, see `list`")
    run.add_argument(
        "--params", metavar="FILE", help="JSON object of parameters; the others keep their defaults"
    )
    run.add_argument(
        "--set",
        metavar="name=value",
        action="append",
        default=[],
        help="one parameter, over --params; the value is read as JSON, else as a string",
    )
    run.add_argument(
        "--image", metavar="FILE", help="a picture of your own, for labs that take one (512 KiB at most)"
    )
    run.add_argument(
        "--trace", metavar="FILE", help="a recorded trace, for labs that take one; plain or gzip"
    )
    run.add_argument("--seed", type=int, default=0, help="draws the traffic, 0 … 2**63 − 1 (default 0)")
    run.add_argument(
        "--device",
        choices=("cpu", "cuda", "auto"),
        default="cpu",
        help="where the tensors live (default cpu)",
    )
    run.add_argument("--out", metavar="FILE", help="also write the report to this file")
    run.add_argument(
        "--metrics", action="store_true", help="print no report but its metrics, one a line with its unit"
    )
    run.set_defaults(command=run_lab)


def list_labs(options: argparse.Namespace) -> int:
    """Every lab and its graded tasks; with --schemas all that is known of a lab."""
    found = [catalog.get_job(name) for name in catalog.job_names()]
    if options.schemas:
        _print_text(_json([_describe(job) for job in found], indent=2))
    else:
        _print_text("\n".join(line for job in found for line in _lines(job)))
    return 0


def _lines(job: jobs.Job) -> list[str]:
    """For eyes: a lab by name and title, its tasks behind it."""
    return [f"{job.name}: {job.title}", *(f"  {task}" for task in job.tasks)]


def _metric_lines(job: jobs.Job, report: jobs.Report) -> list[str]:
    """For eyes: single values alone, each with its unit."""
    properties = job.metrics.model_json_schema()["properties"]
    singles = {name: value for name, value in report.metrics.items() if isinstance(value, int | float | str)}
    width = max(map(len, singles))
    return [
        f"{name:<{width}}  {value} {properties.get(name, {}).get('unit', '')}".rstrip()
        for name, value in singles.items()
    ]


def _describe(job: jobs.Job) -> dict[str, Any]:
    return {
        "name": job.name,
        "title": job.title,
        "summary": job.summary,
        "engine_version": catalog.engine_version(job.name),
        "tasks": list(job.tasks),
        "figures": [figure.name for figure in job.figures],
        "params": job.params.model_json_schema(),
        "metrics": job.metrics.model_json_schema(),
    }


def run_lab(options: argparse.Namespace) -> int:
    """Validate everything, then run; 1 where an invariant broke."""
    try:
        job = catalog.get_job(options.lab)
    except catalog.UnknownLab as error:
        raise InvalidInput(f"lab: {error}") from None
    values = {} if options.params is None else read_json(options.params, "params")
    if not isinstance(values, dict):
        raise InvalidInput(f"params: {options.params} holds no JSON object")
    trace, files = _own_trace(job, options.trace)
    values = values | _own_image(job, options.image) | trace | dict(_assignment(text) for text in options.set)
    params = _validate(job.params, values, "params")
    _refuse_unknown_traces(job, params, files)
    if not 0 <= options.seed < 2**63:
        raise InvalidInput("seed: must lie in 0 … 2**63 − 1")
    out = None if options.out is None else writable(options.out)
    device = _choose_device(options.device)
    try:
        with inputs.given(files):
            report = catalog.resolve(job.simulate)(params, options.seed, _show_progress(), device=device)
    except jobs.InvalidParameter as error:
        raise InvalidInput(str(error)) from None
    for path in files.values():
        _tell_lines(path)
    text = _json(report.model_dump(mode="json"))
    if out is not None:
        write_whole(out, text + "\n")
    _print_text("\n".join(_metric_lines(job, report)) if options.metrics else text)
    for name, found in report.invariants.items():
        if found.state != "held":
            blamed = "broken by this setting: " * (found.state == "broken_by_setting")
            print(f"{name}: {blamed}{found.first_event}", file=sys.stderr)
    return int(any(found.state == "broken" for found in report.invariants.values()))


def balance_file(options: argparse.Namespace) -> int:
    """Placement and max/mean for every case."""
    cases = _validate(BalanceFile, read_json(options.file, "file"), "file").cases
    import numpy as np  # after the checks: errors should not wait for it

    from simworkers.moe.balancer import choose_balancer
    from simworkers.moe.placement import ClusterShape

    found = []
    for case in cases:
        shape = ClusterShape(case.num_slots, case.num_gpus, case.num_nodes, case.num_groups)
        load = np.array(case.load, dtype=np.float64)
        placement = choose_balancer("auto", shape).place(load, shape)
        found.append(
            {
                "name": case.name,
                "placement": placement.experts.tolist(),
                "max_over_mean": placement.max_over_mean(load).tolist(),
            }
        )
    _print(found)
    return 0


def replay_file(options: argparse.Namespace) -> int:
    """Hit blocks and tokens of one trace on one cache; what was refused or repaired in it on stderr."""
    if options.capacity_blocks is not None and options.capacity_blocks < 1:
        raise InvalidInput(f"capacity-blocks: must be at least 1, not {options.capacity_blocks}")
    from simworkers.agents.traffic.replay import replay_trace
    from simworkers.agents.traffic.traces import BadTrace, read_trace

    try:
        with Path(options.trace).open("rb") as file:
            trace = read_trace(file)
    except BadTrace as error:
        raise InvalidInput(f"trace: {error}") from None
    except (OSError, ValueError) as error:
        raise cannot_read("trace", options.trace, error) from None
    _tell_notes(trace)
    hits = replay_trace(trace, options.capacity_blocks)
    _print({"hit_blocks": hits.hit_blocks, "hit_tokens": hits.hit_tokens, "input_tokens": hits.input_tokens})
    return 0


def _tell_lines(path: Path) -> None:
    """What of a trace the lab could not use; nothing where it is of a format of the lab's own."""
    from simworkers.agents.traffic.traces import read_trace

    with contextlib.suppress(OSError, ValueError), path.open("rb") as file:
        _tell_notes(read_trace(file))


def _tell_notes(trace: "Trace") -> None:
    for note in trace.notes:
        print(f"{'refused' if note.is_refused else 'repaired'}: {note}", file=sys.stderr)
    more = trace.lines_refused + trace.repairs - len(trace.notes)
    if more:
        print(f"{more:,} more were refused or repaired", file=sys.stderr)


def _validate(model: type[Model], values: Any, whole: str) -> Model:
    try:
        return strict_json.check(model, values)
    except ValidationError as error:
        raise InvalidInput(*(_line(found, whole) for found in error.errors(include_url=False))) from None
    except RecursionError:
        raise InvalidInput(f"{whole}: is nested too deeply") from None


def _line(found: Any, whole: str) -> str:
    """`field: message`. A key is anything; one that would not stand on the line as a name stands there quoted."""
    parts = [str(part) for part in found["loc"]]
    field = ".".join(part if part.isprintable() and part.strip() else ascii(part) for part in parts) or whole
    message = found["msg"].removeprefix("Value error, ").replace("\n", " ")
    return f"{field}: {message}"


def _own_image(job: jobs.Job, name: str | None) -> dict[str, Any]:
    """The parameters that hand in a picture; whether it is one says the lab."""
    if name is None:
        return {}
    if "own_image" not in job.params.model_fields:
        raise InvalidInput(f"image: {job.name} takes no picture")
    return {"picture": "own", "own_image": base64.b64encode(read_file(name, "image")).decode()}


def _own_trace(job: jobs.Job, name: str | None) -> tuple[dict[str, Any], dict[str, Path]]:
    """(the parameter that names a trace by its hash, hash → path); whether it is one says the lab."""
    if name is None:
        return {}, {}
    fields = inputs.trace_fields(job.params)
    if not fields:
        raise InvalidInput(f"trace: {job.name} takes no trace")
    path = Path(name)
    try:
        if path.exists() and not path.is_file():  # it is read twice, and a pipe can be read once
            raise InvalidInput(f"trace: {name} is no file")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        raise cannot_read("trace", name, error) from None
    return {fields[0]: digest}, {digest: path}


def _refuse_unknown_traces(job: jobs.Job, params: BaseModel, files: dict[str, Path]) -> None:
    """A trace's hash, or the word for the site's own, says nothing to a shell, which has only the file it is given."""
    for field in inputs.trace_fields(job.params):
        named = getattr(params, field)
        if named not in files and (named == inputs.WORD_DEFAULT or inputs.is_digest(named)):
            raise InvalidInput(f"{field}: no file {named!r} here; hand one in with --trace FILE")


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInput(f"set: {text!r} is not name=value")
    try:
        return name, strict_json.parse(value)
    except (ValueError, RecursionError):
        return name, value


def _choose_device(wanted: str) -> str:
    if wanted == "cpu":
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if wanted == "cuda":
        raise InvalidInput("device: no CUDA device here")
    return "cpu"


def _show_progress() -> jobs.Progress:
    last = -1
    end = "\r" if sys.stderr is not None and sys.stderr.isatty() else "\n"

    def show(done: int, total: int) -> None:
        nonlocal last
        if done != last:
            with contextlib.suppress(OSError):  # nobody watches
                print(
                    f"step {done} of {total}", end=end if done < total else "\n", file=sys.stderr, flush=True
                )
            last = done

    return show


def _print(value: Any) -> None:
    _print_text(_json(value))


def _print_text(text: str) -> None:
    """To the last byte; Unprinted where that fails."""
    if sys.stdout is None:
        raise Unprinted("is closed")
    try:
        print(text, flush=True)
    except OSError as error:
        # Python would try the rest again at its end, and fail with a traceback then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Unprinted(f"cannot be written: {error.strerror}") from None


def _json(value: Any, indent: int | None = None) -> str:
    """In ASCII: a shell's own encoding may know no other character."""
    return json.dumps(value, allow_nan=False, indent=indent)


if __name__ == "__main__":
    sys.exit(main())
