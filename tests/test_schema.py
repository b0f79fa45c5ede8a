"""The whole API against its own OpenAPI document: schemathesis sends what the document allows, and what it does not.

Every request goes through the real URL conf, middleware and views, in this process, signed in as a learner to whom
something of each kind belongs. Each generated case is sent as it is, and once more with ids that exist.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from asgiref.sync import async_to_sync
from django.core import signals
from django.core.cache import cache
from django.db import close_old_connections
from django.test import AsyncClient, Client
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from config.openapi import TAGS
from config.wsgi import application
from labs.leaderboard import edition
from labs.loading import load_labs
from labs.models import Figure, FinalRun, Lab, LeaderboardEntry, Run, TaskAttempt
from labs.streaming.tickets import issue_ticket
from labs.validation import check_params
from quiz.models import Learner
from quiz.services import issue_token, start_attempt
from simworkers.catalog import engine_version
from tests.labs.conftest import FIXTURES, make_activities, messages, metrics  # noqa: F401
from tests.quiz.builders import enrolled, make_course, make_learner, make_offering, make_quiz

pytestmark = pytest.mark.django_db

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
CASES = 12
FITTING = {"position": "1", "public_id": "00000000-0000-4000-8000-000000000000"}


class Scene:
    """A learner, and the ids of what belongs to them, by the operation's path."""

    def __init__(self) -> None:
        self.learner = enrolled(make_learner("ada"), make_offering(make_course("frontier-serving")))
        course = self.learner.enrollments.get().offering.course
        quiz = make_quiz(course, attempts_allowed=1000)
        make_activities(course, start=9)
        labs: dict[str, Lab] = {lab.slug: lab for lab in load_labs(FIXTURES)}
        lab = labs["moe-eplb"]
        offering = self.learner.enrollments.get().offering
        sitting, _ = start_attempt(learner=self.learner, quiz=quiz, offering=offering)
        instance = {"params": check_params(lab.job, {}), "seed": 11}
        task = lab.tasks.get(activity__slug="moe-balance-hbm")
        task.leaderboard, task.leaderboard_metric = True, "max_over_mean_mean"
        task.save()
        attempt = TaskAttempt.objects.create(
            task=task,
            offering=offering,
            learner=self.learner,
            number=1,
            draw_seed=1,
            state="open",
            instance=instance,
            engine_version=engine_version(lab.slug),
            visible={},
        )
        self.run = graded_run(lab, self.learner)
        entry = LeaderboardEntry.objects.create(
            task=task, offering=offering, learner=self.learner, display_name="Quiet", name_key="quiet"
        )
        FinalRun.objects.create(
            entry=entry, run=self.run, edition=edition(task), engine_version="x", state="ready", score=1.25
        )
        self.known: dict[str, dict[str, Any]] = {
            "/api/v1/attempts/": {"public_id": str(sitting.public_id), "position": 1},
            "/api/v1/courses/": {"slug": course.slug, "section": "opening"},
            "/api/v1/labs/": {"slug": lab.slug, "name": "report"},
            "/api/v1/offerings/": {"slug": offering.slug},
            "/api/v1/quizzes/": {"slug": quiz.activity.slug},
            "/api/v1/runs/": {"public_id": str(self.run.public_id), "name": "tokens"},
            "/api/v1/task-attempts/": {"public_id": str(attempt.public_id)},
            "/api/v1/tasks/": {"slug": "moe-balance-hbm", "name": "prediction"},
        }

    def authorization(self) -> dict[str, str]:
        """With a new token each time: one of the operations gives it back."""
        return {"Authorization": f"Bearer {issue_token(learner=self.learner)[1]}"}

    def ids_of(self, case: schemathesis.Case) -> dict[str, Any]:
        """The case's path parameters, of things that exist."""
        known = next((ids for path, ids in self.known.items() if case.path.startswith(path)), {})
        return {name: known.get(name, value) for name, value in (case.path_parameters or {}).items()}


def graded_run(lab: Lab, learner: Learner) -> Run:
    params = check_params(lab.job, {})
    invariants = {"tokens_conserved": {"state": "held", "first_event": None}}
    report = {"lab": lab.slug, "engine_version": "x", "seed": 1, "params": params, "metrics": metrics()}
    run = Run.objects.create(
        lab=lab,
        learner=learner,
        params=params,
        seed=1,
        state="graded",
        tries=1,
        report={**report, "invariants": invariants},
        provenance={"torch": "2.13.0"},
    )
    texts = {"title": "Tokens", "svg_light": "<svg/>", "svg_dark": "<svg/>"}
    Figure.objects.create(
        run=run, name="tokens", position=0, spec={}, table=[{"gpu": 0}], png=b"PNG", **texts
    )
    return run


@pytest.fixture
def one_connection() -> Iterator[None]:
    """A request ends by closing the connection, and the test's transaction with it; Django's client prevents that."""
    ends = (signals.request_started, signals.request_finished)
    for signal in ends:
        signal.disconnect(close_old_connections)
    yield
    for signal in ends:
        signal.connect(close_old_connections)


@pytest.fixture
def scene(db: None, one_connection: None, settings: Any, messages: Any) -> Scene:  # noqa: F811
    settings.THROTTLE_RATES = dict.fromkeys(settings.THROTTLE_RATES, (10**6, 60))
    settings.STAFFLOOP_OPEN_REGISTRATION = True
    settings.RUNS_ACTIVE_PER_LEARNER = 10**6
    cache.clear()
    return Scene()


api = schemathesis.openapi.from_dict(SchemaGenerator().get_schema(request=None, public=True))
api.app = application
OPERATIONS = {
    one.label: one for found in api.get_all_operations() if isinstance(found, Ok) for one in [found.ok()]
}
STREAM = "GET /api/v1/runs/{public_id}/events/"
bounded = settings(
    max_examples=CASES,
    deadline=None,
    derandomize=True,
    # A finding need not be the smallest one; making it smaller takes minutes.
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def described(label: str) -> dict[str, Any]:
    found: dict[str, Any] = OPERATIONS[label].definition.raw
    return found


@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_every_operation_has_a_verb_for_an_id_a_known_tag_and_a_summary(label: str) -> None:
    operation = described(label)
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", operation["operationId"])
    assert not re.search(r"_(list|retrieve|create|update|destroy)$", operation["operationId"])
    assert len(operation["tags"]) == 1 and operation["tags"][0] in {tag["name"] for tag in TAGS}
    assert operation["summary"]


@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_every_body_and_every_answer_with_one_shows_an_example(label: str) -> None:
    operation = described(label)
    shown = [operation["requestBody"]] if "requestBody" in operation else []
    good = [answer for status, answer in operation["responses"].items() if status in ("200", "201", "202")]
    shown += [answer for answer in good[-1:] if "content" in answer]
    for part in shown:
        for media_type, content in part["content"].items():
            # A picture of bytes has no example in JSON.
            assert "examples" in content or media_type == "image/png", media_type


@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_every_refusal_is_a_problem_document_with_an_example(label: str) -> None:
    refusals = {s: answer for s, answer in described(label)["responses"].items() if s >= "400"}
    assert {"406", "429"} <= refusals.keys()
    for answer in refusals.values():
        assert list(answer["content"]) == ["application/problem+json"]
        assert "examples" in answer["content"]["application/problem+json"]


def cases(operation: schemathesis.APIOperation) -> st.SearchStrategy[schemathesis.Case]:
    """Requests that the document allows, and requests that it does not."""
    return st.one_of([operation.as_strategy(generation_mode=mode) for mode in GenerationMode])


@pytest.mark.parametrize("label", sorted(OPERATIONS.keys() - {STREAM}))
def test_no_request_breaks_the_server_or_the_document(label: str, scene: Scene) -> None:
    @bounded
    @given(cases(OPERATIONS[label]))
    def send(case: schemathesis.Case) -> None:
        send_case(case, scene)
        case.path_parameters = scene.ids_of(case)
        send_case(case, scene)

    send()


def send_case(case: schemathesis.Case, scene: Scene) -> None:
    headers = scene.authorization()
    response = case.call(headers=headers)
    case.validate_response(response, checks=CHECKS, headers=headers)


def test_no_request_breaks_the_stream_or_the_document(scene: Scene) -> None:
    answers = OPERATIONS[STREAM].definition.raw["responses"]

    @bounded
    @given(cases(OPERATIONS[STREAM]))
    def send(case: schemathesis.Case) -> None:
        given_query = {name: value for name, value in (case.query or {}).items() if isinstance(value, str)}
        case.path_parameters = scene.ids_of(case)
        good = {"ticket": issue_ticket(run=scene.run)[1]}
        for query in (given_query, {**given_query, **good}, good):
            status, media_type = stream_status(case.formatted_path, query)
            assert str(status) in answers and status < 500
            assert media_type in answers[str(status)]["content"]

    send()


@pytest.mark.parametrize("path", sorted({operation.path for operation in OPERATIONS.values()}))
def test_a_method_that_is_not_described_is_refused_as_a_problem(path: str, scene: Scene) -> None:
    known = {operation.method.upper() for operation in OPERATIONS.values() if operation.path == path}
    place = re.sub(r"\{(position|public_id)\}", lambda found: FITTING[found[1]], path)
    client = Client(headers=scene.authorization())
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - known:
        response = client.generic(method, re.sub(r"\{\w+\}", "x", place), b"{}", "application/json")
        assert (response.status_code, response["Content-Type"]) == (405, "application/problem+json")
        assert known <= set(response["Allow"].split(", "))


def stream_status(path: str, query: dict[str, Any]) -> tuple[int, str]:
    """Over ASGI, which streams; the run has ended, so that its stream does too."""

    async def read() -> tuple[int, str]:
        response: Any = await AsyncClient().get(path, query_params=query)
        if response.streaming:
            assert b"figures-ready" in b"".join([part async for part in response.streaming_content])
        return response.status_code, response["Content-Type"].partition(";")[0]

    return async_to_sync(read)()
