"""Pages of the labs. config/urls.py puts them under labs/."""

from django.urls import path

from labs.views import explore, leaderboard, reflections, runs, tasks, traces

urlpatterns = [
    path("", explore.labs, name="labs-page"),
    path("classes/<slug:offering>/tasks/<slug:slug>/", tasks.task, name="task-page"),
    path(
        "classes/<slug:offering>/tasks/<slug:slug>/leaderboard/",
        leaderboard.board,
        name="task-leaderboard-page",
    ),
    path(
        "classes/<slug:offering>/tasks/<slug:slug>/leaderboard/withdraw/",
        leaderboard.withdraw,
        name="task-leaderboard-withdraw",
    ),
    path("attempts/<uuid:public_id>/", tasks.attempt, name="task-attempt-page"),
    path("runs/<uuid:public_id>/", runs.run, name="run-page"),
    path("runs/<uuid:public_id>/cancel/", runs.cancel, name="run-cancel"),
    path("runs/<uuid:public_id>/explanation/", reflections.explain, name="run-explain"),
    path("runs/<uuid:public_id>/explanation/self-check/", reflections.self_check, name="run-self-check"),
    path("runs/<uuid:public_id>/what-if/", reflections.what_if, name="run-what-if"),
    path("traces/", traces.traces, name="traces-page"),
    path("traces/<uuid:public_id>/delete/", traces.delete, name="trace-delete"),
    path("<slug:slug>/", explore.lab, name="lab-page"),
]
