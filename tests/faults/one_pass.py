"""One pass in a process of its own, since Django's settings are those of one site: start, submit, damage, count."""

import argparse
import json
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults.flow import SMALLEST, Account, Flow, Learner, Submission
from tests.faults.processes import Site
from tests.faults.servers import BROKERS, Postgres, Server, wait_for

if TYPE_CHECKING:
    from tests.faults.injections import Injector

WORKERS = 3
WINDOW = 24  # runs that may be under way before learners wait
# An instance that can be judged: with fewer tokens, or one seed in ten, the rubric's anchors stand in the wrong order.
DRAWN, DRAWN_SEED = {**SMALLEST, "tokens_per_step": 512}, 1001
FAULT_EACH_RUNS = 12
FAULT_EACH_S = 15.0  # also where nothing moves, a fault comes
STANDSTILL_S = 150.0  # nothing has moved for so long: what is unfinished now stays so
SETTINGS = {
    # What a site waits for seconds, and a learner for minutes, a harness need not.
    "STAFFLOOP_RUN_TIME_LIMIT_S": "30",
    "STAFFLOOP_RUN_LEASE_S": "5",
    "STAFFLOOP_SWEEP_INTERVAL_S": "1",
    "STAFFLOOP_SWEEP_RESEND_S": "5",
    "STAFFLOOP_RUNS_ACTIVE_PER_LEARNER": "12",
    "STAFFLOOP_REGISTER_RATE": "1000/minute",
    "STAFFLOOP_LEARNER_RATE": "100000/minute",
    "STAFFLOOP_SUBMISSION_RATE": "100000/minute",
    "STAFFLOOP_OPEN_REGISTRATION": "1",
    "SECURE_COOKIES": "0",
    "SECRET_KEY": "of the fault harness alone, long enough to be accepted",
    "DJANGO_SETTINGS_MODULE": "config.settings",
    "PYTHONUNBUFFERED": "1",
}


class Pass:
    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.runs: int = options.runs
        self.transport: str = options.transport
        self.is_damaged: bool = options.damaged
        self.folder = folder
        self.chance = random.Random(options.seed)
        self.finished = 0
        self.begun = time.monotonic()
        self.servers: list[Server] = []
        self.undo: list[Any] = []

    def say(self, line: str) -> None:
        print(f"{time.monotonic() - self.begun:7.1f} s  {line}", file=sys.stderr, flush=True)

    def execute(self) -> dict[str, Any]:
        with self.site() as (site, injector):
            jobs = self.cast(Learner(site.url, Account()))
            flow = Flow(site.url, jobs, WINDOW, lambda: self.finished)
            started = time.monotonic()
            flow.start()
            self.damage_while_it_flows(site, injector, flow)
            seconds = time.monotonic() - started
            self.say("all is at its end, or time is up; every message is delivered once more")
            if self.is_damaged:
                injector.send_everything_again()
                self.tend_for(5, site)
            from tests.faults import census

            numbers, lines = census.patiently(lambda: census.count(flow.account, len(jobs)))
            starts = {process.name: process.starts for process in site.processes}
        numbers["left behind"] = len(site.left_behind())
        return {
            "seconds": seconds,
            "numbers": numbers,
            "lines": lines,
            "faults": dict(injector.done),
            "skipped": dict(injector.skipped),
            "starts": starts,
        }

    @contextmanager
    def site(self) -> Iterator[tuple[Site, "Injector"]]:
        """Servers, database, processes, Django in here; all of it is ended afterwards."""
        environment = {key: value for key, value in os.environ.items() if not key.endswith("_URL")}
        short = self.folder / "t"  # a Unix socket's path may have 107 characters
        short.mkdir()
        environment |= SETTINGS | {"STAFFLOOP_VAR": str(self.folder / "var"), "TMPDIR": str(short)}
        database: Server | None = None
        broker: Server | None = None
        site: Site | None = None
        if self.transport != "embedded":
            database, broker = Postgres(self.folder), BROKERS[self.transport](self.folder)
            environment |= {"DATABASE_URL": database.url, "BROKER_URL": broker.url}
        for name in ("DATABASE_URL", "BROKER_URL"):
            os.environ.pop(name, None)
        os.environ.update(environment)
        try:
            for server in filter(None, (database, broker)):
                server.start()
            skew_s = self.chance.choice([-60, 60]) if self.is_damaged else 0
            site = Site(self.folder, environment, skew_s, WORKERS)
            injector = self.injector(site, database, broker)
            self.say("servers run")
            site.manage("bootstrap")
            self.say("bootstrapped")
            self.say(f"the site is there; one worker's clock is {skew_s:+d} s off")
            site.tend()
            wait_for(lambda: answers(site.url), "the web process")
            yield site, injector
        finally:
            self.begin_to_end(site)
            for server in filter(None, (broker, database)):
                server.stop()

    def injector(self, site: Site, database: Server | None, broker: Server | None) -> "Injector":
        import django

        django.setup()
        logging.getLogger("httpx").setLevel(logging.WARNING)
        from tests.faults.injections import BrokerFolder, Injector

        folder = BrokerFolder(self.folder / "var" / "broker") if broker is None else None
        if folder is not None:
            self.undo.append(folder.unmount)
        return Injector(
            site, database=database, broker=broker, folder=folder, chance=self.chance, say=self.say
        )

    def begin_to_end(self, site: Site | None) -> None:
        if site is not None:
            site.stop()
        from django.db import connections

        connections.close_all()
        for undo in self.undo:
            undo()

    def cast(self, registrar: Learner) -> list[Submission]:
        """Who submits what: of a hundred runs 39 graded ones, 4 of them prepared by a worker, 60 free, one endless."""
        real = max(1, self.runs * 4 // 100)
        endless = max(1, self.runs // 100)
        free = self.runs * 60 // 100
        tokens = [registrar.register() for _ in range(4)]
        # Three of four free runs equal others, and may be answered with their report.
        seeds = [index % 3 if index % 4 else index for index in range(free)]
        jobs = [Submission("free", self.chance.choice(tokens), seed) for seed in seeds]
        jobs += [Submission("real", token) for token, _ in insert_learners(real, drawn=False)]
        rest = self.runs - endless - len(jobs)
        jobs += [Submission("drawn", token, attempt=key) for token, key in insert_learners(rest, drawn=True)]
        self.chance.shuffle(jobs)
        for index in range(endless):  # the first at once: it lasts longest
            jobs.insert(index * self.runs // endless, Submission("endless", self.chance.choice(tokens)))
        return jobs

    def damage_while_it_flows(self, site: Site, injector: "Injector", flow: Flow) -> None:
        from tests.faults import census

        planned = injector.plan(self.runs // FAULT_EACH_RUNS) if self.is_damaged else []
        each = max(1, self.runs // (len(planned) + 1))
        number, last_at = 0, time.monotonic()
        moved_at, seen = last_at, None
        while time.monotonic() - moved_at < STANDSTILL_S:
            site.tend()
            injector.tend()
            states = census.patiently(census.states)
            self.finished = sum(states.values()) - states["queued"] - states["running"]
            is_due = self.finished >= (number + 1) * each or time.monotonic() - last_at > FAULT_EACH_S
            if number < len(planned) and is_due:
                injector.inject(planned[number])
                number, last_at = number + 1, time.monotonic()
            if flow.is_over and number == len(planned) and not census.patiently(census.active):
                break
            if seen != (seen := (number, states)):
                moved_at = time.monotonic()
            time.sleep(0.25)
        injector.tend(now=True)
        site.tend()
        self.say(f"states: {dict(census.patiently(census.states))}")

    def tend_for(self, seconds: float, site: Site) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            site.tend()
            time.sleep(0.25)


def answers(url: str) -> bool:
    import httpx

    try:
        return httpx.get(f"{url}/api/v1/labs/", timeout=5, trust_env=False).status_code < 500
    except httpx.TransportError:
        return False


def insert_learners(number: int, *, drawn: bool) -> list[tuple[str, str]]:
    """[(token, public id of an open attempt or "")], each a learner of the open class with one attempt at most."""
    from django.db import transaction

    from labs.models import LabTask, TaskAttempt
    from labs.validation import check_params
    from quiz.models import Learner as Account
    from quiz.models import Offering
    from quiz.services import enroll, issue_token
    from simworkers.catalog import engine_version

    offering = Offering.objects.get(slug="open")
    task = LabTask.objects.select_related("lab").get(activity__slug="moe-balance-hbm")
    params = check_params(task.lab.job, DRAWN)
    rows = []
    with transaction.atomic():
        for index in range(number):
            name = f"{'drawn' if drawn else 'real'}-{index}"
            learner = Account.objects.create_user(username=name)
            enroll(learner=learner, offering=offering)
            _, token = issue_token(learner=learner)
            key = ""
            if drawn:
                instance = {"params": params, "seed": DRAWN_SEED}
                attempt = TaskAttempt.objects.create(
                    task=task,
                    offering=offering,
                    learner=learner,
                    number=1,
                    state=TaskAttempt.State.OPEN,
                    draw_seed=index,
                    instance=instance,
                    visible={},
                    engine_version=engine_version(task.lab.slug),
                )
                key = str(attempt.public_id)
            rows.append((token, key))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.one_pass")
    parser.add_argument("--runs", type=int, required=True)
    parser.add_argument("--transport", choices=["embedded", *BROKERS], required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--damaged", action="store_true")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that everything is ended and unmounted
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    folder.chmod(0o755)  # PostgreSQL's user must reach its part
    try:
        print(json.dumps(Pass(options, folder).execute()))
    finally:
        if options.keep:
            print(f"kept: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
