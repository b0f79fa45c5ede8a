"""`python -m tests.faults --runs N --transport embedded|redis|rabbitmq [--seed S]`: damage a site, count, compare.

Prints what was done, what became of the runs, and the time beside that of a twin that was left alone. Exit 1 if a run
was lost, doubled, stuck or wrongly failed, 2 where a program is missing.
"""

import argparse
import json
import subprocess
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.faults.processes import ROOT
from tests.faults.servers import BROKERS, is_installed

MUST_BE_ZERO = ("lost", "doubled", "stuck", "wrongly failed", "inconsistent", "left behind")
console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)


def one_pass(options: argparse.Namespace, *, damaged: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.faults.one_pass", "--runs", str(options.runs)]
    command += ["--transport", options.transport, "--seed", str(options.seed)]
    command += ["--damaged"] * damaged + ["--keep"] * options.keep
    patience_s = 900 + 10 * options.runs
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, timeout=patience_s)
    if done.returncode:
        sys.exit(f"the pass itself failed with exit status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def show(options: argparse.Namespace, damaged: dict[str, Any], twin: dict[str, Any] | None) -> None:
    title = f"{options.runs} runs, {options.transport}, seed {options.seed}"
    table = Table("", "with faults", title=title, title_justify="left")
    columns = [damaged]
    if twin is not None:
        table.add_column("twin without")
        columns.append(twin)
    for name in damaged["numbers"]:
        style = "bold" if name in MUST_BE_ZERO else ""
        table.add_row(name, *(str(column["numbers"][name]) for column in columns), style=style)
    table.add_row("seconds", *(f"{column['seconds']:.0f}" for column in columns))
    console.print(table)
    done = ", ".join(f"{name} ×{number}" for name, number in sorted(damaged["faults"].items()))
    console.print(f"faults: {done}")
    if damaged["skipped"]:
        console.print("skipped: " + ", ".join(f"{name} ×{n}" for name, n in damaged["skipped"].items()))
    for column in columns:
        for line in column["lines"]:
            console.print(line, style="red")


def programs_lacking(transport: str) -> list[str]:
    """The programs that a pass over this transport needs, and that are not installed here."""
    needed = {"embedded": [], "redis": ["redis-server"], "rabbitmq": ["rabbitmq-server", "epmd"]}[transport]
    found = [name for name in needed if not is_installed(name)]
    if needed and not is_installed("pg_ctl", "usr/lib/postgresql/*/bin"):
        found.append("pg_ctl")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--transport", choices=["embedded", *BROKERS], default="embedded")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-twin", action="store_true", help="damage only; compare with nothing")
    parser.add_argument("--keep", action="store_true", help="keep the folders with all logs")
    options = parser.parse_args()
    if lacking := programs_lacking(options.transport):
        console.print(f"not installed: {', '.join(lacking)}")
        sys.exit(2)
    damaged = one_pass(options, damaged=True)
    twin = None if options.no_twin else one_pass(options, damaged=False)
    show(options, damaged, twin)
    columns = [damaged, twin] if twin is not None else [damaged]
    sys.exit(any(column["numbers"][name] for column in columns for name in MUST_BE_ZERO))


if __name__ == "__main__":
    main()
