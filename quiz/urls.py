"""The course's part of the API. config/urls.py puts it under /api/v1/."""

from django.urls import path

from quiz.api.attempts import AttemptsView, AttemptView, QuizView, ResponseView, SubmissionView
from quiz.api.courses import EnrollmentsView, OfferingsView, OfferingView, SectionView
from quiz.api.grades import GradesView
from quiz.api.people import CurrentTokenView, LearnersView, MeView, TokensView

urlpatterns = [
    path("learners/", LearnersView.as_view(), name="api-learners"),
    path("tokens/", TokensView.as_view(), name="api-tokens"),
    path("tokens/current/", CurrentTokenView.as_view(), name="api-current-token"),
    path("me/", MeView.as_view(), name="api-me"),
    path("offerings/", OfferingsView.as_view(), name="api-offerings"),
    path("offerings/<slug:slug>/", OfferingView.as_view(), name="api-offering"),
    path("offerings/<slug:slug>/enrollments/", EnrollmentsView.as_view(), name="api-enrollments"),
    path("courses/<slug:slug>/sections/<slug:section>/", SectionView.as_view(), name="api-section"),
    path("quizzes/<slug:slug>/", QuizView.as_view(), name="api-quiz"),
    path("quizzes/<slug:slug>/attempts/", AttemptsView.as_view(), name="api-attempts"),
    path("attempts/<uuid:public_id>/", AttemptView.as_view(), name="api-attempt"),
    path("attempts/<uuid:public_id>/responses/<int:position>/", ResponseView.as_view(), name="api-response"),
    path("attempts/<uuid:public_id>/submission/", SubmissionView.as_view(), name="api-submission"),
    path("grades/", GradesView.as_view(), name="api-grades"),
]
