from django.urls import path

from labs.api import attempts, figures, labs, leaderboard, reflection, runs, sweeps, tasks, traces
from labs.streaming.api import RunEvents, StreamTickets

urlpatterns = [
    path("labs/", labs.LabList.as_view(), name="api-labs"),
    path("labs/<slug:slug>/", labs.LabDetail.as_view(), name="api-lab"),
    path("labs/<slug:slug>/schemas/<slug:name>/", labs.LabSchema.as_view(), name="api-lab-schema"),
    path("labs/<slug:slug>/runs/", runs.LabRuns.as_view(), name="api-lab-runs"),
    path("labs/<slug:slug>/sweep/", sweeps.LabSweep.as_view(), name="api-lab-sweep"),
    path("tasks/", tasks.TaskList.as_view(), name="api-tasks"),
    path("tasks/<slug:slug>/", tasks.TaskDetail.as_view(), name="api-task"),
    path("tasks/<slug:slug>/schemas/<slug:name>/", tasks.TaskSchema.as_view(), name="api-task-schema"),
    path("tasks/<slug:slug>/attempts/", attempts.TaskAttempts.as_view(), name="api-task-attempts"),
    path("tasks/<slug:slug>/leaderboard/", leaderboard.Leaderboard.as_view(), name="api-task-leaderboard"),
    path(
        "tasks/<slug:slug>/leaderboard/entry/",
        leaderboard.OwnEntry.as_view(),
        name="api-task-leaderboard-entry",
    ),
    path("task-attempts/<uuid:public_id>/", attempts.TaskAttemptDetail.as_view(), name="api-task-attempt"),
    path("traces/", traces.TraceList.as_view(), name="api-traces"),
    path("traces/<uuid:public_id>/", traces.TraceDetail.as_view(), name="api-trace"),
    path("runs/", runs.RunList.as_view(), name="api-runs"),
    path("runs/<uuid:public_id>/", runs.RunDetail.as_view(), name="api-run"),
    path("runs/<uuid:public_id>/cancellation/", runs.RunCancellation.as_view(), name="api-run-cancellation"),
    path(
        "runs/<uuid:public_id>/explanation/",
        reflection.RunExplanation.as_view(),
        name="api-run-explanation",
    ),
    path(
        "runs/<uuid:public_id>/explanation/self-check/",
        reflection.RunSelfCheck.as_view(),
        name="api-run-self-check",
    ),
    path("runs/<uuid:public_id>/variations/", reflection.RunVariations.as_view(), name="api-run-variations"),
    path("runs/<uuid:public_id>/difference/", reflection.RunDifference.as_view(), name="api-run-difference"),
    path("runs/<uuid:public_id>/stream-tickets/", StreamTickets.as_view(), name="api-stream-tickets"),
    path("runs/<uuid:public_id>/events/", RunEvents.as_view(), name="api-run-events"),
    path("runs/<uuid:public_id>/report/", runs.RunReport.as_view(), name="api-run-report"),
    path("runs/<uuid:public_id>/figures/", figures.RunFigures.as_view(), name="api-run-figures"),
    path("runs/<uuid:public_id>/figures/<slug:name>/", figures.RunFigure.as_view(), name="api-run-figure"),
]
