"""Pages of the labs. config/urls.py puts them under labs/."""

from django.urls import path

from labs.views import explore, reflections, runs, tasks

urlpatterns = [
    path("", explore.labs, name="labs-page"),
    path("classes/<slug:offering>/tasks/<slug:slug>/", tasks.task, name="task-page"),
    path("attempts/<uuid:public_id>/", tasks.attempt, name="task-attempt-page"),
    path("runs/<uuid:public_id>/", runs.run, name="run-page"),
    path("runs/<uuid:public_id>/cancel/", runs.cancel, name="run-cancel"),
    path("runs/<uuid:public_id>/explanation/", reflections.explain, name="run-explain"),
    path("runs/<uuid:public_id>/explanation/self-check/", reflections.self_check, name="run-self-check"),
    path("runs/<uuid:public_id>/what-if/", reflections.what_if, name="run-what-if"),
    path("<slug:slug>/", explore.lab, name="lab-page"),
]
