"""Waking the workers. A message carries an id and nothing else; the row says what there is to do."""

import logging
from collections.abc import Callable

from amqp.exceptions import AMQPError
from celery import current_app
from django.db import models, transaction
from django.db.models.functions import Now
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from labs.models import FinalRun, Run, Sweep, TaskAttempt, TraceFile

log = logging.getLogger(__name__)

# kombu translates what may pass by itself; a broker that is full or read-only raises its library's own errors.
REFUSALS = (OperationalError, OSError, AMQPError, RedisError)
# Once more and at once: the pooled connection may be from before a restart of the broker.
RETRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
CONFIRM_TIMEOUT_S = 10


def on_commit(send: Callable[[], object]) -> None:
    """Send after the row is there for all to see. What fails is logged, and the sweeper sends again."""
    transaction.on_commit(send, robust=True)


def publish(task: str, pk: int) -> bool:
    """Put one message on the broker. False: it was not accepted; the sweeper will try again."""
    try:
        current_app.send_task(
            task, args=[pk], retry=True, retry_policy=RETRY, confirm_timeout=CONFIRM_TIMEOUT_S
        )
    except REFUSALS as exc:
        log.warning("the broker took no message %s(%s): %s", task, pk, exc)
        return False
    return True


def send_run(pk: int) -> bool:
    """Whether the broker took the message."""
    if is_sent := publish("labs.run_lab", pk):
        note_sent(Run.objects.filter(pk=pk))
    return is_sent


def send_preparation(pk: int) -> None:
    if publish("labs.prepare_attempt", pk):
        note_sent(TaskAttempt.objects.filter(pk=pk))


def send_sweep(pk: int) -> None:
    if publish("labs.compute_sweep", pk):
        note_sent(Sweep.objects.filter(pk=pk))


def send_trace_check(pk: int) -> bool:
    """Whether the broker took the message."""
    if is_sent := publish("labs.check_trace", pk):
        note_sent(TraceFile.objects.filter(pk=pk))
    return is_sent


def send_final_run(pk: int) -> bool:
    """Whether the broker took the message."""
    if is_sent := publish("labs.compute_final_run", pk):
        note_sent(FinalRun.objects.filter(pk=pk))
    return is_sent


def send_drawing(pk: int) -> None:
    if publish("labs.draw_figures", pk):
        Run.objects.filter(pk=pk).update(figures_sent_at=Now())


def note_sent(
    rows: models.QuerySet[Run]
    | models.QuerySet[TaskAttempt]
    | models.QuerySet[Sweep]
    | models.QuerySet[TraceFile]
    | models.QuerySet[FinalRun],
) -> None:
    rows.update(sent_at=Now())
