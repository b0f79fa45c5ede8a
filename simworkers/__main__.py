"""Every lab from a shell. JSON alone on stdout; progress and errors on stderr.

Exit 0: done. 1: a run broke an invariant (its report is printed all the same), or stdout cannot be written.
2: invalid input, one `field: message` a line.
"""

import argparse
import base64
import contextlib
import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from simworkers import catalog, jobs, strict_json
from simworkers.balance_file import BalanceFile

Model = TypeVar("Model", bound=BaseModel)

MAX_FILE_BYTES = 32 * 2**20
EXAMPLES = """examples:
  python -m simworkers list
  python -m simworkers run moe-eplb --set eplb=true --set redundant_slots_per_gpu=1 --seed 7
  python -m simworkers run multimodal-cache --image screenshot.png --set client=jpeg
  python -m simworkers balance cases.json
  python -m simworkers replay sessions.jsonl.gz --capacity-blocks 16384
"""


class InvalidInput(Exception):
    """The caller's mistakes, each a `field: message` line."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))


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
    listing = commands.add_parser("list", help="every lab, with its parameters as JSON Schema")
    listing.set_defaults(command=list_labs)

    run = commands.add_parser("run", help="run a lab and print its report")
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
    run.add_argument("--seed", type=int, default=0, help="draws the traffic, 0 … 2**63 − 1 (default 0)")
    run.add_argument(
        "--device",
        choices=("cpu", "cuda", "auto"),
        default="cpu",
        help="where the tensors live (default cpu)",
    )
    run.add_argument("--out", metavar="FILE", help="also write the report to this file")
    run.set_defaults(command=run_lab)

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


def list_labs(_options: argparse.Namespace) -> int:
    """Name, title, summary, version, schemas and graded tasks of every lab."""
    _print([_describe(catalog.get_job(name)) for name in catalog.job_names()])
    return 0


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
    values = {} if options.params is None else _read_json(options.params, "params")
    if not isinstance(values, dict):
        raise InvalidInput(f"params: {options.params} holds no JSON object")
    values = values | _own_image(job, options.image) | dict(_assignment(text) for text in options.set)
    params = _validate(job.params, values, "params")
    if not 0 <= options.seed < 2**63:
        raise InvalidInput("seed: must lie in 0 … 2**63 − 1")
    out = None if options.out is None else _writable(options.out)
    device = _choose_device(options.device)
    try:
        report = catalog.resolve(job.simulate)(params, options.seed, _show_progress(), device=device)
    except jobs.InvalidParameter as error:
        raise InvalidInput(str(error)) from None
    text = _json(report.model_dump(mode="json"))
    if out is not None:
        _write_whole(out, text + "\n")
    _print_text(text)
    broken = {name: found for name, found in report.invariants.items() if found.state == "broken"}
    for name, found in broken.items():
        print(f"{name}: {found.first_event}", file=sys.stderr)
    return 1 if broken else 0


def balance_file(options: argparse.Namespace) -> int:
    """Placement and max/mean for every case."""
    cases = _validate(BalanceFile, _read_json(options.file, "file"), "file").cases
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
    from simworkers.agents.replay import replay_trace
    from simworkers.agents.traces import BadTrace, read_trace

    try:
        with Path(options.trace).open("rb") as file:
            trace = read_trace(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        if isinstance(error, BadTrace):
            raise InvalidInput(f"trace: {reason}") from None
        raise InvalidInput(f"trace: cannot read {options.trace!r}: {reason}") from None
    for note in trace.notes:
        print(f"{'refused' if note.is_refused else 'repaired'}: {note}", file=sys.stderr)
    hits = replay_trace(trace, options.capacity_blocks)
    _print({"hit_blocks": hits.hit_blocks, "hit_tokens": hits.hit_tokens, "input_tokens": hits.input_tokens})
    return 0


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
    return {"picture": "own", "own_image": base64.b64encode(_read_file(name, "image")).decode()}


def _assignment(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InvalidInput(f"set: {text!r} is not name=value")
    try:
        return name, strict_json.parse(value)
    except (ValueError, RecursionError):
        return name, value


def _read_file(name: str, field: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"{field}: cannot read {name!r}: {reason}") from None
    if len(data) > MAX_FILE_BYTES:
        raise InvalidInput(f"{field}: {name} is larger than {MAX_FILE_BYTES // 2**20} MiB")
    return data


def _read_json(name: str, field: str) -> Any:
    data = _read_file(name, field)
    try:
        return strict_json.parse(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidInput(f"{field}: {name} is not UTF-8 text") from None
    except RecursionError:
        raise InvalidInput(f"{field}: {name} is nested too deeply") from None
    except ValueError as error:
        raise InvalidInput(f"{field}: {name} is not JSON: {error}") from None


def _writable(name: str) -> Path:
    """Where to write: a new file or a regular one. A device or pipe would be replaced, as /dev/null by a file."""
    path = Path(name).resolve()  # what a link names is written, not the link
    if (path.exists() and not path.is_file()) or not os.access(path.parent, os.W_OK):
        raise InvalidInput(f"out: cannot write {name}")
    return path


def _write_whole(path: Path, text: str) -> None:
    """All of it or nothing: a reader never finds half a report."""
    draft = path.with_name(f".{path.name[:80]}-{uuid.uuid4().hex}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InvalidInput(f"out: cannot write {path}: {error.strerror}") from None


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

    def show(done: int, total: int) -> None:
        nonlocal last
        if done != last:
            with contextlib.suppress(OSError):  # nobody watches
                print(f"step {done} of {total}", file=sys.stderr)
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


def _json(value: Any) -> str:
    """In ASCII: a shell's own encoding may know no other character."""
    return json.dumps(value, allow_nan=False)


if __name__ == "__main__":
    sys.exit(main())
