from datetime import timedelta

import pytest
from django.utils import timezone

from quiz import services
from quiz.models import Enrollment
from tests.quiz.builders import client_of, enrolled, make_course, make_learner, make_offering


def test_a_learner_joins_an_open_class_once(offering, quiz):
    api = client_of(make_learner("bo"))
    path = f"/api/v1/offerings/{offering.slug}/"
    assert api.get(path).json()["role"] is None
    assert [api.post(path + "enrollments/").status_code for _ in range(2)] == [201, 200]
    assert api.get(path).json()["role"] == "learner"


def test_joining_again_does_not_change_the_role(offering):
    teacher = make_learner("tea")
    services.enroll(learner=teacher, offering=offering, role=Enrollment.Role.INSTRUCTOR)
    answer = client_of(teacher).post(f"/api/v1/offerings/{offering.slug}/enrollments/")
    assert answer.json()["role"] == "instructor"


def test_a_class_that_is_closed_takes_nobody(offering):
    offering.closes_at = timezone.now() - timedelta(seconds=1)
    offering.save()
    answer = client_of(make_learner("bo")).post(f"/api/v1/offerings/{offering.slug}/enrollments/")
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:staffloop:problem:closed")


def test_a_class_by_invitation_and_all_in_it_is_hidden_from_others(offering, quiz):
    offering.self_enrolment = False
    offering.save()
    stranger = client_of(make_learner("bo"))
    member = client_of(enrolled(make_learner("cy"), offering))
    paths = [
        f"/api/v1/offerings/{offering.slug}/",
        f"/api/v1/courses/{offering.course.slug}/sections/opening/",
        f"/api/v1/quizzes/{quiz.activity.slug}/",
    ]
    assert [stranger.get(path).status_code for path in paths] == [404] * 3
    assert [member.get(path).status_code for path in paths] == [200] * 3
    assert stranger.post(paths[0] + "enrollments/").status_code == 404
    assert stranger.get("/api/v1/offerings/").json()["results"] == []


def test_the_class_shows_contents_grades_and_progress(api, learner, offering, quiz):
    before = api.get(f"/api/v1/offerings/{offering.slug}/").json()
    services.record_grade(
        learner=learner, offering=offering, activity=quiz.activity, score=0, source="a test"
    )
    after = api.get(f"/api/v1/offerings/{offering.slug}/").json()
    assert before["course"]["sections"] == [{"position": 1, "slug": "opening", "title": "Opening"}]
    assert (before["activities"][0]["grade"], before["progress"]["text"]) == (None, "0 / 1 done")
    assert (after["activities"][0]["grade"]["score"], after["progress"]["text"]) == ("0.0000", "1 / 1 done")


def test_a_class_shows_only_the_readers_own_grades(api, offering, quiz):
    other = enrolled(make_learner("bo"), offering)
    services.record_grade(learner=other, offering=offering, activity=quiz.activity, score=1, source="a test")
    assert api.get(f"/api/v1/offerings/{offering.slug}/").json()["activities"][0]["grade"] is None
    assert api.get("/api/v1/grades/").json()["results"] == []


def test_a_section_is_served_as_markdown_and_as_clean_html(api, offering):
    section = api.get(f"/api/v1/courses/{offering.course.slug}/sections/opening/").json()
    assert section["body"] == "Some **text**."
    assert section["body_html"] == "<p>Some <strong>text</strong>.</p>\n"


def test_lists_are_paged_by_cursor(api, offering):
    for number in range(3):
        make_offering(make_course(f"c{number}"), f"o{number}")
    first = api.get("/api/v1/offerings/?page_size=3").json()
    second = api.get(first["next"]).json()
    assert [row["slug"] for row in first["results"] + second["results"]] == ["o2", "o1", "o0", "open"]
    assert second["next"] is None


def test_listing_classes_takes_as_many_queries_for_many_as_for_one(api, offering, django_assert_num_queries):
    for number in range(5):
        make_offering(make_course(f"c{number}"), f"o{number}")
    with django_assert_num_queries(2):
        api.get("/api/v1/offerings/")


@pytest.mark.parametrize("path", ["offerings/none/", "courses/none/sections/opening/", "quizzes/none/"])
def test_what_does_not_exist_is_404_with_a_problem_document(api, path):
    answer = api.get(f"/api/v1/{path}")
    assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")
