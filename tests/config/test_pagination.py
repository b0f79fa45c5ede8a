"""Lists page by cursor: nothing is shown twice or left out while rows are added."""

import base64

import pytest
from rest_framework.test import APIClient

from labs.models import Run
from tests.labs.conftest import FIXTURES, lab, learner, offering  # noqa: F401
from tests.labs.test_api import client_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(learner) -> APIClient:  # noqa: F811
    return client_of(learner)


@pytest.fixture
def submit(lab, learner):  # noqa: F811
    def submit(count: int) -> list[str]:
        rows = [Run.objects.create(lab=lab, learner=learner, params={}, seed=0) for _ in range(count)]
        return [str(row.public_id) for row in rows]

    return submit


def test_rows_added_while_one_reads_shift_no_page(api, submit):
    old = submit(7)
    page = api.get("/api/v1/runs/?page_size=3").json()
    seen = [row["public_id"] for row in page["results"]]
    while page["next"]:
        submit(2)
        page = api.get(page["next"]).json()
        seen += [row["public_id"] for row in page["results"]]
    assert seen == old[::-1]


def test_what_was_added_since_stands_before_the_first_page(api, submit):
    submit(4)
    page = api.get("/api/v1/runs/?page_size=2").json()
    second = api.get(page["next"]).json()
    new = submit(1)
    back = api.get(second["previous"]).json()
    newest = api.get(back["previous"]).json() if back["previous"] else back
    assert new[0] in [row["public_id"] for row in newest["results"]]


def test_a_page_has_at_most_200_rows(api, submit):
    submit(3)
    assert len(api.get("/api/v1/runs/?page_size=1000000").json()["results"]) == 3
    assert api.get("/api/v1/runs/?page_size=nonsense").status_code == 200


@pytest.mark.parametrize("position", ["x", "-1", "1e9", "9" * 40, "²", "1;2"])
def test_a_made_up_cursor_is_404_and_reaches_no_database(api, submit, position):
    submit(1)
    cursor = base64.b64encode(f"p={position}".encode()).decode()
    answer = api.get("/api/v1/runs/", {"cursor": cursor})
    assert answer.status_code == 404
    assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["labs/", "tasks/", "runs/", "offerings/", "grades/"])
def test_every_list_pages_by_cursor(api, lab, path):  # noqa: F811
    assert set(api.get(f"/api/v1/{path}").json()) == {"next", "previous", "results"}


def test_tasks_come_in_the_order_of_the_course(api, lab):  # noqa: F811
    slugs = [row["slug"] for row in api.get("/api/v1/tasks/?page_size=1").json()["results"]]
    first = lab.tasks.order_by("activity__position").first()
    assert slugs == [first.slug]
