"""One run's id, followed through the log lines of web, worker and child of a real site."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.labs.test_serve import ROOT, Running, eventually, running

REQUEST = "front-end/4711"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {
        **os.environ,
        "STAFFLOOP_VAR": str(tmp_path_factory.mktemp("site")),
        "LOG_FORMAT": "json",
        "LOG_LEVEL": "info",
        "PYTHONUNBUFFERED": "1",
    }


@pytest.fixture(scope="module")
def token(environment: dict[str, str]) -> str:
    bootstrap = [sys.executable, "manage.py", "bootstrap", "--people"]
    done = subprocess.run(bootstrap, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    found = re.search(r"^token\s+(\S+)", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    return found[1]


@pytest.fixture(scope="module")
def serving(environment: dict[str, str], token: str) -> Iterator[Running]:
    command = [sys.executable, "manage.py", "serve", "--port", "0", "--workers", "1"]
    with running(command, environment) as site:
        yield site
        site.process.terminate()
        assert site.wait() == 0


def entries(site: Running) -> list[dict[str, Any]]:
    """Everything logged so far; what `serve` says itself is no JSON."""
    return [json.loads(line) for line in list(site.lines) if line.startswith("{")]


def test_one_run_is_found_in_the_lines_of_web_worker_and_child(serving: Running, token: str) -> None:
    url = serving.find(r"answers at (http://127\.0\.0\.1:\d+)/")
    headers = {"Authorization": f"Bearer {token}", "X-Request-ID": REQUEST}
    body = {"params": {"tokens_per_step": 256, "num_steps": 2}}
    answer = httpx.post(f"{url}/api/v1/labs/moe-eplb/runs/", json=body, headers=headers, timeout=30)
    assert (answer.status_code, answer.headers["X-Request-ID"]) == (202, REQUEST)
    run = str(answer.json()["public_id"])

    def logged(logger: str, words: str) -> list[dict[str, Any]]:
        return [one for one in entries(serving) if one["logger"] == logger and words in one["message"]]

    eventually(lambda: logged("simworkers.forked_child", "run_job took"), "the child's line")
    (queued,) = logged("labs.services", f"run {run}: queued")
    (tried,) = logged("labs.execution", f"run {run}: try 1")
    (begins,) = logged("simworkers.forked_child", "run_job begins")
    (took,) = logged("simworkers.forked_child", "run_job took")

    assert {one["request"] for one in (queued, tried, begins, took)} == {REQUEST}
    assert {one["run"] for one in (tried, begins, took)} == {run}
    web, worker = serving.pid("web"), serving.pid("worker")
    assert (queued["pid"], tried["pid"]) == (web, worker)
    assert begins["pid"] == took["pid"] not in (web, worker)
    assert tried["worker"].endswith(f":{worker}") and begins["worker"] == tried["worker"]


def test_the_web_process_notes_what_changes_something_and_no_poll(serving: Running, token: str) -> None:
    url = serving.find(r"answers at (http://127\.0\.0\.1:\d+)/")
    headers = {"Authorization": f"Bearer {token}", "X-Request-ID": "two\twords"}
    made = httpx.get(f"{url}/api/v1/runs/", headers=headers, timeout=30).headers["X-Request-ID"]
    assert re.fullmatch(r"[0-9a-f]{32}", made), "what can be no id is replaced"
    httpx.post(f"{url}/no%0Asuch/page", headers={"X-Request-ID": "seen-me"}, timeout=30)
    eventually(lambda: any(one.get("request") == "seen-me" for one in entries(serving)), "the line")
    lines = [one["message"] for one in entries(serving) if one.get("request") == "seen-me"]
    assert any(line.startswith("POST /no%0Asuch/page 40") for line in lines)
    time.sleep(0.2)
    assert not any(one.get("request") == made for one in entries(serving))


def test_every_line_on_stderr_is_json_apart_from_what_serve_says(serving: Running) -> None:
    serving.find(r"celery@\S+ (ready)")
    other = [line for line in list(serving.lines) if not line.startswith("{")]
    said = re.compile(r"(web|worker) pid \d+|Staffloop answers at|stopping; runs may finish")
    assert [line for line in other if not said.match(line)] == []
