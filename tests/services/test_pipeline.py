"""The way of a run on PostgreSQL with Redis and with RabbitMQ, chosen by DATABASE_URL and BROKER_URL alone."""

import os
import signal
import time
from typing import Any

import amqp
import pytest
from celery import Celery
from kombu import Connection

from tests.journeys.test_a_graded_run import finished, free_run, open_attempt, submit, until
from tests.services.conftest import RealSite

pytestmark = pytest.mark.slow

SECONDS_LONG = {"num_steps": 32, "num_layers": 8}  # still runs when its first step has been seen


def channel_of(link: Connection) -> Any:
    return link.default_channel  # Any: the stubs know only what all transports have


def messages_left(broker_url: str) -> int:
    with Connection(broker_url) as link:
        try:
            queue = channel_of(link).queue_declare("runs", passive=True)
        except amqp.ChannelError:
            return 0
        return int(queue.message_count)


def test_a_submission_is_graded_and_its_figures_are_drawn(real: RealSite):
    api = real.site.newcomer()
    run = finished(api, submit(api, open_attempt(api)))
    assert (run["state"], run["tries"]) == ("graded", 1), run["reason"]
    drawn = list(api.watch(run["url"], lambda r: r["figures_ready"]))[-1]
    assert drawn["figures"]
    assert real.rows("SELECT count(*) FROM labs_run WHERE state = 'graded'") == [(1,)]


def test_a_killed_workers_run_comes_back_by_its_lease_long_before_the_broker_sends_again(real: RealSite):
    api = real.site.newcomer()
    run = free_run(api, SECONDS_LONG)
    until(lambda: api.get(run["url"])["progress"]["done"] > 0)
    os.kill(real.site.pids["worker"], signal.SIGKILL)
    begun = time.monotonic()
    done = finished(api, run)
    assert (done["state"], done["tries"]) == ("graded", 2)
    # Redis would wait for its visibility timeout of twenty-one minutes.
    assert time.monotonic() - begun < 600


def test_a_message_delivered_again_after_the_end_changes_nothing(real: RealSite):
    api = real.site.newcomer()
    run = finished(api, submit(api, open_attempt(api)))
    key = [run["public_id"]]
    before = real.rows("SELECT id, state, tries, finished_at FROM labs_run WHERE public_id = %s", *key)
    sender = Celery("late", broker=real.broker_url, set_as_current=False)
    for _ in range(3):
        sender.send_task("labs.run_lab", args=[before[0][0]], queue="runs")
    until(lambda: messages_left(real.broker_url) == 0)
    time.sleep(1)  # the last one may still be in a worker's hands
    assert (
        real.rows("SELECT id, state, tries, finished_at FROM labs_run WHERE public_id = %s", *key) == before
    )
    assert [grade["revision"] for grade in api.get("grades/")["results"]] == [1]


@pytest.mark.parametrize("real", ["rabbitmq"], indirect=True)  # Redis has no durable queues
def test_the_queue_outlives_a_restart_of_rabbitmq(real: RealSite):
    with Connection(real.broker_url) as link:
        # A queue declared with other properties than it has is refused.
        channel_of(link).queue_declare("runs", durable=True, auto_delete=False)
