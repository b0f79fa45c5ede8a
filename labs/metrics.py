"""What an operator watches about runs, for Prometheus, counted from rows.

Many processes serve and compute, and any of them may die: no count lives in a process's memory. What happened lately
is a gauge over the last day; what only grows (leases expired) is a sum over all rows, on an index that holds just the
rows concerned. It falls only where runs are erased, which Prometheus takes for a restart.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db.models import Count, DurationField, ExpressionWrapper, F, Q, QuerySet, Sum
from django.db.models.functions import Coalesce, Now
from prometheus_client.core import CounterMetricFamily, GaugeHistogramMetricFamily, GaugeMetricFamily, Metric

from labs.models import Lab, Run, TaskAttempt, Worker
from labs.scheduling import free_slots

DAY = timedelta(days=1)
RUN_SECONDS = (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300)
WAIT_SECONDS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800)


def run_metrics() -> list[Metric]:
    """A dozen queries, each on an index or on the few rows of a day. DatabaseError passes."""
    return [
        *queue_metrics(),
        *last_day_metrics(),
        *worker_metrics(),
        CounterMetricFamily(
            "staffloop_leases_expired",
            "Runs taken back from workers that fell silent, since the first run",
            value=Run.objects.filter(leases_expired__gt=0).aggregate(n=Coalesce(Sum("leases_expired"), 0))[
                "n"
            ],
        ),
    ]


def queue_metrics() -> Iterable[Metric]:
    now = GaugeMetricFamily("staffloop_runs", "Runs under way now", labels=["lab", "state"])
    active = Run.objects.active().values_list("lab__slug", "state").annotate(n=Count("pk"))
    counted = {(lab, state): n for lab, state, n in active}
    for lab in Lab.objects.values_list("slug", flat=True):
        for state in Run.ACTIVE:
            now.add_metric([lab, state], counted.get((lab, state), 0))
    yield now
    yield GaugeMetricFamily(
        "staffloop_oldest_queued_age_seconds",
        "Age of the run that has been queued longest; 0 without one",
        value=oldest_age_s(Run.objects.filter(state=Run.State.QUEUED)),
    )
    yield GaugeMetricFamily(
        "staffloop_oldest_preparing_age_seconds",
        "Age of the task attempt that has waited longest to be prepared; 0 without one",
        value=oldest_age_s(TaskAttempt.objects.filter(state=TaskAttempt.State.PREPARING)),
    )


def oldest_age_s(rows: QuerySet[Run] | QuerySet[TaskAttempt]) -> float:
    """By the database's clock."""
    age = ExpressionWrapper(Now() - F("created_at"), output_field=DurationField())
    oldest = rows.order_by("created_at").annotate(age=age).values_list("age", flat=True).first()
    return oldest.total_seconds() if oldest is not None else 0.0


def last_day_metrics() -> Iterable[Metric]:
    finished = Run.objects.filter(finished_at__gte=Now() - DAY)
    by_state = GaugeMetricFamily(
        "staffloop_runs_last_day", "Runs that ended in the last 24 hours", labels=["lab", "state"]
    )
    for lab, state, n in finished.values_list("lab__slug", "state").annotate(n=Count("pk")):
        by_state.add_metric([lab, state], n)
    yield by_state
    by_tries = GaugeMetricFamily(
        "staffloop_runs_last_day_by_tries",
        "Runs that ended in the last 24 hours, by how often a worker began them",
        labels=["tries"],
    )
    for tries, n in finished.values_list("tries").annotate(n=Count("pk")):
        by_tries.add_metric([str(tries)], n)
    yield by_tries
    computed = finished.filter(state=Run.State.GRADED, reused=False)
    yield histogram(
        "staffloop_run_duration_last_day_seconds",
        "Start of the last try to grade, of the last 24 hours",
        computed.annotate(took=difference("finished_at", "started_at")),
        RUN_SECONDS,
    )
    yield histogram(
        "staffloop_run_wait_last_day_seconds",
        "Submission to start of the last try, of runs graded in the last 24 hours",
        computed.annotate(took=difference("started_at", "created_at")),
        WAIT_SECONDS,
    )


def difference(later: str, earlier: str) -> ExpressionWrapper:
    return ExpressionWrapper(F(later) - F(earlier), output_field=DurationField())


def histogram(name: str, text: str, rows: QuerySet[Run], bounds_s: Iterable[float]) -> Metric:
    """Cumulative buckets of `took` per lab, counted by the database in one query."""
    bounds = tuple(bounds_s)
    at_most = {
        f"b{index}": Count("pk", filter=Q(took__lte=timedelta(seconds=bound)))
        for index, bound in enumerate(bounds)
    }
    family = GaugeHistogramMetricFamily(name, text, labels=["lab"])
    counted = rows.values("lab__slug").annotate(**at_most, total=Sum("took"), n=Count("pk")).order_by()
    lab_rows: Iterable[dict[str, Any]] = counted  # type: ignore[assignment]  # keys that only we know
    for row in lab_rows:
        buckets = [(str(float(bound)), row[f"b{index}"]) for index, bound in enumerate(bounds)]
        family.add_metric(
            [row["lab__slug"]],
            buckets=[*buckets, ("+Inf", row["n"])],
            gsum_value=row["total"].total_seconds() if row["total"] else 0.0,
        )
    return family


def worker_metrics() -> Iterable[Metric]:
    live = Worker.objects.live().aggregate(n=Count("pk"), slots=Coalesce(Sum("slots"), 0))
    yield GaugeMetricFamily("staffloop_workers", "Workers that reported themselves lately", value=live["n"])
    yield GaugeMetricFamily("staffloop_slots", "Runs that they compute at a time", value=live["slots"])
    yield GaugeMetricFamily("staffloop_free_slots", "Slots without a run now", value=free_slots())
