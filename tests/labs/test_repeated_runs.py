"""A submission that is sent many times with one Idempotency-Key makes one run, and wakes the workers once."""

import threading
from typing import Any

import pytest
from django.db import connection

from labs.models import Run
from tests.labs.test_api import RUNS, client_of, submission

KEY: dict[str, Any] = {"HTTP_IDEMPOTENCY_KEY": "run-1"}


@pytest.mark.django_db(transaction=True)
def test_eight_equal_submissions_at_once_make_one_run(attempt, messages):
    answers: list[Any] = []
    barrier = threading.Barrier(8)
    clients = [client_of(attempt.learner) for _ in range(8)]

    def send(client: Any) -> None:
        barrier.wait()
        answers.append(client.post(RUNS, submission(attempt), format="json", **KEY))
        connection.close()

    threads = [threading.Thread(target=send, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    places = {answer["Location"] for answer in answers if answer.status_code == 202}
    assert {answer.status_code for answer in answers} <= {202, 409}
    assert len(places) == 1
    assert Run.objects.count() == 1
    assert len(messages) == 1


@pytest.mark.django_db(transaction=True)
def test_a_repeated_free_run_is_the_first_one_and_without_a_key_it_is_another(lab, learner):
    api = client_of(learner)
    body: dict[str, Any] = {"params": {}}
    first, again = (api.post(RUNS, body, format="json", **KEY) for _ in range(2))
    other = api.post(RUNS, body, format="json")
    assert again["Location"] == first["Location"] != other["Location"]
    assert again["Retry-After"] == "1"


def test_a_submission_that_came_too_early_is_not_kept(attempt):
    api = client_of(attempt.learner)
    Run.objects.create(lab=attempt.task.lab, learner=attempt.learner, task_attempt=attempt, params={}, seed=0)
    assert api.post(RUNS, submission(attempt), format="json", **KEY).status_code == 409
    Run.objects.update(state=Run.State.CANCELLED)
    assert api.post(RUNS, submission(attempt), format="json", **KEY).status_code == 202
