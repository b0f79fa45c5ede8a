"""Learners: they submit over REST, again where the site did not answer, and note what it accepted."""

import queue
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from tests.faults.entries import ENDLESS_SEED

SMALLEST = {"num_steps": 2, "warmup_steps": 1, "num_layers": 1, "tokens_per_step": 64}
PREDICTION = {"straggler_gpu": 0, "max_over_mean": 1.5}
PATIENCE_S = 300.0
PAUSE_S = 0.5


class GivenUp(Exception):
    """The site refused for good, or for longer than a learner waits."""


@dataclass(frozen=True)
class Submission:
    """One run to be: a free one, or that of a learner's only attempt, prepared already ("drawn") or not ("real")."""

    kind: Literal["free", "endless", "drawn", "real"]
    token: str
    seed: int = 0
    attempt: str = ""


@dataclass
class Account:
    """What the site said. Filled by several threads; list.append is atomic."""

    accepted: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    calls_repeated: int = 0


class Learner:
    """One HTTP client. A call is repeated while the site is away or busy, for at most PATIENCE_S."""

    def __init__(self, url: str, account: Account) -> None:
        self.http = httpx.Client(base_url=f"{url}/api/v1/", timeout=15, trust_env=False)
        self.account = account

    def call(self, method: str, path: str, body: Any = None, *, token: str = "") -> httpx.Response:
        """The answer. One key for all repetitions: what was heard the first time is answered as the first time."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers["Idempotency-Key"] = f'"{secrets.token_hex(8)}"'
        deadline = time.monotonic() + PATIENCE_S
        last = ""
        while time.monotonic() < deadline:
            try:
                answer = self.http.request(method, path, json=body, headers=headers)
            except httpx.TransportError as error:
                last = repr(error)
            else:
                if not is_passing(answer):
                    return answer
                last = f"{answer.status_code} {answer.text[:200]}"
            self.account.calls_repeated += 1
            time.sleep(PAUSE_S)
        raise GivenUp(f"{method} {path}: {last}")

    def register(self) -> str:
        """A new account, enrolled in the open class; its token."""
        # A name is taken only once: a repeated registration that finds it taken was heard the first time.
        credentials = {"username": f"f-{secrets.token_hex(4)}", "password": secrets.token_urlsafe(12)}
        self.call("POST", "learners/", credentials)
        answer = self.call("POST", "tokens/", credentials)
        if answer.status_code >= 400:
            raise GivenUp(f"tokens/: {answer.status_code} {answer.text[:200]}")
        token: str = answer.json()["token"]
        self.call("POST", "offerings/open/enrollments/", {}, token=token)
        return token

    def submit(self, job: Submission) -> None:
        attempt = job.attempt
        body: dict[str, Any]
        if job.kind in ("free", "endless"):
            body = {"params": SMALLEST, "seed": ENDLESS_SEED if job.kind == "endless" else job.seed}
        else:
            attempt = attempt or self.open_attempt(job.token)
            body = {"task_attempt": attempt, "params": {"eplb": True}, "prediction": PREDICTION}
        answer = self.call("POST", "labs/moe-eplb/runs/", body, token=job.token)
        if answer.status_code < 300:
            self.account.accepted.append(answer.json()["public_id"])
        else:
            raise GivenUp(f"{job.kind}: {answer.status_code} {answer.text[:300]}")

    def open_attempt(self, token: str) -> str:
        """Open the real task's attempt and wait for a worker to draw it; its public id."""
        place = self.call("POST", "tasks/moe-balance-hbm/attempts/", {}, token=token).json()
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            attempt = self.call("GET", place["url"], token=token).json()
            if attempt["state"] == "open":
                return str(attempt["public_id"])
            if attempt["state"] == "failed":
                # Interrupted three times: it does not count, and another may be opened.
                place = self.call("POST", "tasks/moe-balance-hbm/attempts/", {}, token=token).json()
            time.sleep(PAUSE_S)
        raise GivenUp("an attempt was never prepared")


def is_passing(answer: httpx.Response) -> bool:
    """Whether to ask again: the site is broken or busy, or the first request with this key is still under way."""
    status = answer.status_code
    return status >= 500 or status == 429 or (status == 409 and "idempotency-key" in answer.text)


class Flow:
    """Threads of learners working off a list, at most `window` runs ahead of the workers."""

    def __init__(self, url: str, jobs: list[Submission], window: int, finished: Callable[[], int]) -> None:
        self.account = Account()
        self._window = window
        self._finished = finished
        self._jobs: queue.SimpleQueue[Submission] = queue.SimpleQueue()
        for job in jobs:
            self._jobs.put(job)
        self._threads = [threading.Thread(target=self._work, args=(url,), daemon=True) for _ in range(6)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self, url: str) -> None:
        learner = Learner(url, self.account)
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return
            self._wait_for_room()
            try:
                learner.submit(job)
            except (GivenUp, KeyError, ValueError) as error:
                self.account.given_up.append(repr(error))

    def _wait_for_room(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if len(self.account.accepted) - self._finished() < self._window:
                return
            time.sleep(0.1)
