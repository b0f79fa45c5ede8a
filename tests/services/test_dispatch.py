"""A message that the broker does not take is an answer, never an exception: the sweeper sends it again."""

import logging

import pytest
from amqp.exceptions import PreconditionFailed
from celery import Celery, current_app
from kombu.exceptions import ChannelError, OperationalError
from redis.exceptions import ResponseError

from labs import dispatch
from tests.faults.servers import free_port


@pytest.mark.parametrize(
    "refusal",
    [
        OperationalError("connection refused"),
        OSError(28, "No space left on device"),
        ChannelError("cannot publish to 'runs'"),
        PreconditionFailed("inequivalent arg 'durable'"),
        ResponseError("OOM command not allowed when used memory > 'maxmemory'."),
    ],
)
def test_whatever_a_broker_answers_the_sender_hears_that_it_took_no_message(refusal, monkeypatch, caplog):
    def refuse(*args, **kwargs):
        raise refusal

    monkeypatch.setattr(current_app, "send_task", refuse)
    with caplog.at_level(logging.WARNING):
        assert dispatch.publish("labs.run_lab", 7) is False
    assert "labs.run_lab(7)" in caplog.text


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_is_away_is_found_out_at_once(scheme, monkeypatch):
    away = Celery("away", broker=f"{scheme}://127.0.0.1:{free_port()}//", set_as_current=False)
    monkeypatch.setattr(dispatch, "current_app", away)
    assert dispatch.publish("labs.run_lab", 7) is False
