from django.urls import path

from labs import api, figures_api, reflection_api
from labs.streaming.api import RunEvents, StreamTickets
from labs.sweeps_api import LabSweep

urlpatterns = [
    path("labs/", api.LabList.as_view(), name="api-labs"),
    path("labs/<slug:slug>/", api.LabDetail.as_view(), name="api-lab"),
    path("labs/<slug:slug>/schemas/<slug:name>/", api.LabSchema.as_view(), name="api-lab-schema"),
    path("labs/<slug:slug>/runs/", api.LabRuns.as_view(), name="api-lab-runs"),
    path("labs/<slug:slug>/sweep/", LabSweep.as_view(), name="api-lab-sweep"),
    path("tasks/", api.TaskList.as_view(), name="api-tasks"),
    path("tasks/<slug:slug>/", api.TaskDetail.as_view(), name="api-task"),
    path("tasks/<slug:slug>/schemas/<slug:name>/", api.TaskSchema.as_view(), name="api-task-schema"),
    path("tasks/<slug:slug>/attempts/", api.TaskAttempts.as_view(), name="api-task-attempts"),
    path("task-attempts/<uuid:public_id>/", api.TaskAttemptDetail.as_view(), name="api-task-attempt"),
    path("runs/", api.RunList.as_view(), name="api-runs"),
    path("runs/<uuid:public_id>/", api.RunDetail.as_view(), name="api-run"),
    path("runs/<uuid:public_id>/cancellation/", api.RunCancellation.as_view(), name="api-run-cancellation"),
    path(
        "runs/<uuid:public_id>/explanation/",
        reflection_api.RunExplanation.as_view(),
        name="api-run-explanation",
    ),
    path(
        "runs/<uuid:public_id>/explanation/self-check/",
        reflection_api.RunSelfCheck.as_view(),
        name="api-run-self-check",
    ),
    path(
        "runs/<uuid:public_id>/variations/", reflection_api.RunVariations.as_view(), name="api-run-variations"
    ),
    path(
        "runs/<uuid:public_id>/difference/", reflection_api.RunDifference.as_view(), name="api-run-difference"
    ),
    path("runs/<uuid:public_id>/stream-tickets/", StreamTickets.as_view(), name="api-stream-tickets"),
    path("runs/<uuid:public_id>/events/", RunEvents.as_view(), name="api-run-events"),
    path("runs/<uuid:public_id>/report/", api.RunReport.as_view(), name="api-run-report"),
    path("runs/<uuid:public_id>/figures/", figures_api.RunFigures.as_view(), name="api-run-figures"),
    path(
        "runs/<uuid:public_id>/figures/<slug:name>/", figures_api.RunFigure.as_view(), name="api-run-figure"
    ),
]
