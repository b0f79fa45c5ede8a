"""Pages of the course. config/urls.py puts them at the root."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from quiz.views import accounts, course, quizzes

urlpatterns = [
    path("", course.home, name="home"),
    path("accounts/login/", accounts.SignInView.as_view(), name="login"),
    path("accounts/logout/", LogoutView.as_view(), name="logout"),
    path("accounts/signup/", accounts.sign_up, name="signup"),
    path("classes/<slug:offering>/", course.offering, name="offering-page"),
    path("classes/<slug:offering>/join/", course.join, name="join"),
    path("classes/<slug:offering>/read/<slug:section>/", course.section, name="section-page"),
    path("classes/<slug:offering>/quizzes/<slug:slug>/", quizzes.quiz, name="quiz-page"),
    path("attempts/<uuid:public_id>/", quizzes.attempt, name="attempt-page"),
]
