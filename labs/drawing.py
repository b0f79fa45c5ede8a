"""The figures of a graded run: drawn by a child from the stored report, and stored with the run."""

import base64
import logging
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from labs import runner
from labs.execution import limits
from labs.models import Figure, Run
from simworkers import logs

log = logging.getLogger(__name__)


def draw_run_figures(run_id: int) -> None:
    """Draw a graded run's figures in a child and store them. Drawing twice stores the same once."""
    run = Run.objects.select_related("lab").filter(pk=run_id, state=Run.State.GRADED).first()
    if run is None or run.report is None or run.figures.exists():
        return
    if run.figures_tries >= settings.RUN_MAX_TRIES:
        return
    # Counted when it begins: a message that was lost or waits in a long queue is no try.
    Run.objects.filter(pk=run.pk).update(figures_tries=F("figures_tries") + 1, figures_sent_at=Now())
    report = {**run.report, "provenance": run.provenance or {}}
    try:
        with logs.bind(run=str(run.public_id)):
            drawn = runner.call(
                "draw_figures",
                {"lab": run.lab.slug, "report": report},
                limits=limits(),
                on_beat=lambda steps: True,
                beat_s=settings.RUN_HEARTBEAT_S,
            )
    except (runner.JobFailed, runner.JobTimedOut) as exc:
        # The grade stands without its pictures; the sweeper asks again a few times.
        log.error("run %s: the figures could not be drawn: %s", run.public_id, exc)
        return
    store_figures(run, drawn)


@transaction.atomic
def store_figures(run: Run, drawn: dict[str, Any]) -> None:
    """Nothing where the run was erased since. drawn: name → figure, as the child hands them back."""
    # Locked, so that nobody erases it between our look and our write.
    if not Run.objects.select_for_update(no_key=True).filter(pk=run.pk).values_list("pk"):
        return
    rows = [
        Figure(
            run=run,
            name=name,
            position=position,
            title=figure["title"],
            caption=figure["caption"],
            spec=figure["spec"],
            table=figure["table"],
            svg_light=figure["svg_light"],
            svg_dark=figure["svg_dark"],
            png=base64.b64decode(figure["png_base64"]),
        )
        for position, (name, figure) in enumerate(drawn.items())
    ]
    Figure.objects.bulk_create(rows, ignore_conflicts=True)
