"""Letting go of reports that were kept for long enough. Scores, sheets and grades stay."""

import logging
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from labs.models import Figure, Run

log = logging.getLogger(__name__)

# In one transaction: reports are large, and a sweep must not hold up a worker's heartbeat.
BATCH = 50


def remove_old_reports() -> int:
    """Reports and figures of runs that ended KEEP_REPORTS_DAYS ago, a batch at a time; how many. 0 days: for ever."""
    if not settings.KEEP_REPORTS_DAYS:
        return 0
    oldest = Now() - timedelta(days=settings.KEEP_REPORTS_DAYS)
    old = Run.objects.filter(state=Run.State.GRADED, report__isnull=False, finished_at__lt=oldest)
    keys = list(old.order_by("finished_at").values_list("pk", flat=True)[:BATCH])
    if not keys:
        return 0
    with transaction.atomic():
        removed = old.filter(pk__in=keys).update(report=None, report_removed_at=Now())
        Figure.objects.filter(run__in=keys).delete()
    log.info("%d report(s) older than %d days were removed", removed, settings.KEEP_REPORTS_DAYS)
    return removed
