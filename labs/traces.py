"""Recorded traces: handed in, offered, given up. The file is kept once; whoever holds it calls it what they like."""

import logging
import re
from collections.abc import Iterable
from functools import partial

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Now

from labs import dispatch, trace_storage
from labs.models import Run, TaskAttempt, Trace, TraceFile
from labs.trace_storage import Received
from quiz.errors import Refusal
from quiz.models import Learner
from quiz.services import lock_learner

log = logging.getLogger(__name__)

NAME_LIMIT = Trace._meta.get_field("name").max_length or 0
UNNAMED = "trace"
ENDING = re.compile(r"(?:\.[A-Za-z0-9]{1,10}){1,2}$")


class QuotaUsed(Refusal):
    """The learner holds as many traces, or as many bytes of them, as one may."""

    status = 403
    slug = "trace-quota-used"
    title = "No room for another trace"


class Vanished(Exception):
    """Somebody removed the row, and with it the file, between finding and locking it: from the start again."""


def hand_in(
    *, learner: Learner | None, name: str, parts: Iterable[bytes], at: str = ""
) -> tuple[Trace, bool]:
    """(trace, whether it is new to this learner). A learner that is None offers it to everyone.

    parts: the file as it comes in; `at`: the place of it in the request, for faults. A worker checks a file that nobody
    has handed in before, and once more one that was refused. Raises InvalidInput, TooLarge and QuotaUsed.
    """
    called = clean_name(name)
    with trace_storage.receive(parts, at=at) as received:
        return hold(learner, called, received)


def clean_name(name: str) -> str:
    """Without folders, blanks around it, and what cannot be shown; a long one without its middle."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return shortened("".join(char for char in last if char.isprintable()).strip()) or UNNAMED


def shortened(name: str) -> str:
    """Its beginning and the ending of the file, with … between them where it is too long."""
    if len(name) <= NAME_LIMIT:
        return name
    found = ENDING.search(name)
    ending = found[0] if found else ""
    return name[: NAME_LIMIT - 1 - len(ending)].rstrip() + "…" + ending


def hold(learner: Learner | None, name: str, received: Received) -> tuple[Trace, bool]:
    """Stored before it has a row, so that no row is ever without its file; removed again where another was first. What
    the storage has lost or damaged is stored anew.

    Only the hash tells a file that is held already from one too many, so nothing is refused before it is known.
    """
    if (
        learner is not None
        and not Trace.objects.held_by(learner).filter(file__digest=received.digest).exists()
    ):
        refuse_over_quota(learner, received.count_bytes)  # before it is stored; asked again under the lock
    while True:
        known = TraceFile.objects.filter(digest=received.digest).first()
        is_kept = known is not None and trace_storage.is_sound(known)
        location = "" if is_kept else trace_storage.keep(received)
        damaged = known.location if known is not None and not is_kept else ""
        try:
            trace, is_new = note_holder(learner, name, received, location, damaged)
        except (Vanished, Refusal) as exc:
            if location:
                trace_storage.remove(location)
            if isinstance(exc, Vanished):
                continue
            raise
        if location and location != trace.file.location:
            trace_storage.remove(location)
        return trace, is_new


@transaction.atomic
def note_holder(
    learner: Learner | None, name: str, received: Received, location: str, damaged: str
) -> tuple[Trace, bool]:
    if learner is not None:
        lock_learner(learner=learner)
    file = locked_file(received, location, damaged)
    held = Trace.objects.filter(learner=learner, file=file).first()
    if held is None and learner is not None:
        refuse_over_quota(learner, file.bytes_sent)
    trace = held or Trace.objects.create(learner=learner, file=file, name=name)
    trace.file = file
    if file.state == TraceFile.State.REFUSED:  # handed in again: perhaps it was us
        file.state, file.tries, file.reason = TraceFile.State.CHECKING, 0, ""
        file.save(update_fields=["state", "tries", "reason"])
    if file.state == TraceFile.State.CHECKING:
        dispatch.on_commit(partial(dispatch.send_trace_check, file.pk))
    return trace, held is None


def locked_file(received: Received, location: str, damaged: str) -> TraceFile:
    """The row of these bytes, made where there is none, locked until the transaction ends. Raises Vanished.

    damaged: where they turned out to be lost or not what they were; a row that still has it needs the new location.
    """
    if location:
        values = {"bytes_sent": received.count_bytes, "location": location}
        TraceFile.objects.get_or_create(digest=received.digest, defaults=values)
    file = TraceFile.objects.select_for_update().filter(digest=received.digest).first()
    if file is None:
        raise Vanished
    if damaged and file.location == damaged:
        file.location = location  # what is left of the old one is an orphan, and the sweeper's
        file.save(update_fields=["location"])
        log.warning("%s: was lost or damaged as %s, stored anew as %s", file, damaged, location)
    return file


def refuse_over_quota(learner: Learner, more_bytes: int) -> None:
    """Of all that they hold, refused ones too. Raises QuotaUsed where another does not fit."""
    mine = Trace.objects.held_by(learner)
    if mine.count() >= settings.TRACES_PER_LEARNER:
        raise QuotaUsed(f"You hold {settings.TRACES_PER_LEARNER} traces; delete one first.")
    used: int = mine.aggregate(n=Sum("file__bytes_sent"))["n"] or 0
    if used + more_bytes > settings.TRACE_BYTES_PER_LEARNER:
        raise QuotaUsed(
            f"Your traces have {used:,} bytes and this one {more_bytes:,}; together at most "
            f"{settings.TRACE_BYTES_PER_LEARNER:,}. Delete one first."
        )


@transaction.atomic
def offer_trace(*, file: TraceFile, name: str) -> Trace:
    """Show it to everyone, under this name; offered already, it keeps its name."""
    locked = TraceFile.objects.select_for_update().get(pk=file.pk)
    trace, _ = Trace.objects.get_or_create(file=locked, learner=None, defaults={"name": clean_name(name)})
    return trace


@transaction.atomic
def give_up(*, trace: Trace) -> None:
    """Hold it no longer; the last one's file goes with it, unless a run or an open attempt needs it."""
    key = trace.file_id
    trace.delete()
    remove_unneeded(TraceFile.objects.filter(pk=key))


def unneeded() -> QuerySet[TraceFile]:
    """Files that nobody holds and nothing is to read: no run is under way, no report there to be computed again, no
    attempt open that was drawn from it and in a class that goes on.
    """
    drawn = TaskAttempt.traces.through.objects.filter(
        Q(taskattempt__offering__closes_at__isnull=True) | Q(taskattempt__offering__closes_at__gt=Now()),
        tracefile=OuterRef("pk"),
        taskattempt__state=TaskAttempt.State.OPEN,
    )
    reads = Run.traces.through.objects.filter(tracefile=OuterRef("pk")).filter(
        Q(run__state__in=Run.ACTIVE) | Q(run__report__isnull=False)
    )
    held = Trace.objects.filter(file=OuterRef("pk"))
    return TraceFile.objects.filter(~Exists(held), ~Exists(reads), ~Exists(drawn))


@transaction.atomic
def remove_unneeded(files: QuerySet[TraceFile] | None = None) -> int:
    """Remove those of these files (of all) that nobody needs; how many. The bytes go once the row has gone."""
    found = unneeded() if files is None else unneeded().filter(pk__in=files.values("pk"))
    # Locked, in one order so that no two wait for each other, and asked again whether somebody needs it: who came first
    # had the lock until then.
    named = list(found.values_list("pk", flat=True))
    locked = list(TraceFile.objects.select_for_update().filter(pk__in=named).order_by("pk"))
    removed = 0
    for file in locked:
        if unneeded().filter(pk=file.pk).exists():
            file.delete()
            removed += 1
            transaction.on_commit(partial(trace_storage.remove, file.location), robust=True)
    return removed
