"""Leaderboards over REST and in the admin: what learners and staff see, and that the final instance never leaves."""

import json
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.test import Client

from labs.api.examples import leaderboard as examples
from labs.api.examples.tasks import RANKED_TASK
from labs.leaderboard import edition
from labs.learner_data import erase_learner, learner_data
from labs.management.commands.bootstrap import make_author_group
from labs.models import FinalRun, LabTask, LeaderboardEntry
from quiz.models import Enrollment, Learner, Offering
from quiz.services import enroll
from tests.labs.at_once import meanwhile
from tests.labs.conftest import make_learner
from tests.labs.leaderboards import (
    METRIC,
    board,
    child,
    compute_all,
    entered,
    graded,
    hidden_texts,
)
from tests.labs.test_api import client_of, pointers
from tests.labs.test_examples import outline

__all__ = ["board", "child", "entered", "graded"]  # fixtures

# How the statements begin that look one's entry up, and its rank.
LOOKED_UP, RANKED = 'SELECT "labs_leaderboardentry"."id", ', 'SELECT "labs_leaderboardentry"."id" AS "pk"'
URL = "/api/v1/tasks/moe-balance-hbm/leaderboard/"
OWN = f"{URL}entry/"


def put(learner: Learner, name: Any = "Quiet router", **extra: Any) -> Any:
    return client_of(learner).put(OWN, {"display_name": name, **extra}, format="json")


@pytest.fixture
def ranked(entered, child) -> list[LeaderboardEntry]:
    """Three learners, ranked in this order."""
    entries = [
        entered(name, redundant_slots_per_gpu=slots) for slots, name in enumerate(("eve", "bob", "ada"))
    ]
    child(lambda params: 2.0 - params["redundant_slots_per_gpu"])
    compute_all()
    return list(reversed(entries))


def staff_of(offering: Offering) -> Learner:
    return Learner.objects.create_user("root", is_staff=True)


# Entering ------------------------------------------------------------------------------------------


def test_a_learner_enters_is_ranked_renames_and_withdraws(board, learner, graded, child):
    run = graded(learner)
    made = put(learner)
    assert (made.status_code, made["Retry-After"], made.json()["state"]) == (201, "1", "computing")
    child(1.25)
    compute_all()
    api = client_of(learner)
    shown = api.get(OWN)
    assert "Retry-After" not in shown
    assert (shown.json()["state"], shown.json()["rank"], shown.json()["score"]) == ("ranked", 1, 1.25)
    assert [row["run"] for row in shown.json()["final_runs"]] == [str(run.public_id)]
    assert put(learner, "Another name").status_code == 200
    assert [row["display_name"] for row in api.get(URL).json()["results"]] == ["Another name"]
    assert api.delete(OWN).status_code == 204
    assert api.delete(OWN).status_code == 404
    assert api.get(URL).json()["results"] == []


def test_the_same_put_again_changes_nothing(board, learner, graded):
    graded(learner)
    first, second = put(learner), put(learner)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert FinalRun.objects.count() == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"display_name": None},
        {"display_name": 5},
        {"display_name": 12345},
        {"display_name": 1.5},
        {"display_name": True},
        {"display_name": "<i>x</i>"},
        {"display_name": "x" * 41},
    ],
)
def test_a_name_that_cannot_be_one_is_pointed_at(board, learner, graded, body):
    graded(learner)
    answer = client_of(learner).put(OWN, body, format="json")
    assert (answer.status_code, pointers(answer)) == (400, ["#/display_name"])


def test_an_unknown_field_is_pointed_at(board, learner, graded):
    graded(learner)
    assert pointers(put(learner, rank=1)) == ["#/rank"]


def test_entering_counts_as_a_submission(board, learner, graded, settings):
    graded(learner)
    settings.THROTTLE_RATES = {**settings.THROTTLE_RATES, "submission": (1, 60)}
    assert [put(learner).status_code for _ in range(2)] == [201, 429]


def test_before_a_graded_run_the_answer_is_409(board, learner):
    assert put(learner).status_code == 409


def test_who_is_in_two_classes_names_one(board, learner, graded, offering):
    graded(learner)
    second = Offering.objects.create(course=offering.course, slug="second", title="Second")
    enroll(learner=learner, offering=second)
    assert pointers(put(learner)) == ["#/offering"]
    api = client_of(learner)
    entered = api.put(f"{OWN}?offering=open", {"display_name": "Quiet router"}, format="json")
    assert entered.status_code == 201
    assert api.get(f"{URL}?offering=second").json()["results"] == []


def test_who_left_the_class_can_still_withdraw(ranked):
    learner = ranked[0].learner
    Enrollment.objects.filter(learner=learner).delete()
    assert client_of(learner).get(OWN).json()["state"] == "left"
    assert client_of(learner).delete(OWN).status_code == 204


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("statement", [LOOKED_UP, RANKED])
def test_a_put_answers_what_it_stored_though_the_entry_is_withdrawn_meanwhile(board, ranked, statement):
    entry = ranked[1]
    with meanwhile(statement, lambda: client_of(entry.learner).delete(OWN)) as failures:
        answer = put(entry.learner, "Another name")
    assert (answer.status_code, answer.json()["state"], answer.json()["rank"]) == (200, "ranked", 2)
    assert (LeaderboardEntry.objects.filter(pk=entry.pk).exists(), failures) == (False, [])


# Looking -------------------------------------------------------------------------------------------


def test_learners_see_ranks_and_display_names_and_which_is_theirs(board, ranked):
    rows = client_of(ranked[1].learner).get(URL).json()["results"]
    assert [(row["rank"], row["display_name"], row["own"]) for row in rows] == [
        (1, "The ada", False),
        (2, "The bob", True),
        (3, "The eve", False),
    ]
    assert all(row["score"] is None and row["learner"] is None for row in rows)


def test_no_login_of_another_stands_in_what_a_learner_reads(board, offering, entered, graded, child):
    other = make_learner("hidden-login-zq", offering)
    other.email = "hidden-mail-zq@example.org"
    other.save()
    entered("hidden-login-zq", "Quiet router")
    child()
    compute_all()
    looking = make_learner("looking", offering)
    text = client_of(looking).get(URL).content.decode()
    assert "Quiet router" in text
    assert "zq" not in text and str(other.public_id) not in text


def test_staff_and_teachers_of_the_class_see_scores_and_people(board, ranked, offering):
    teacher = Learner.objects.create_user("teacher")
    enroll(learner=teacher, offering=offering, role=Enrollment.Role.INSTRUCTOR)
    for who, address in ((staff_of(offering), f"{URL}?offering=open"), (teacher, URL)):
        first = client_of(who).get(address).json()["results"][0]
        assert first["score"] == 0.0
        assert first["learner"] == {"public_id": str(ranked[0].learner.public_id), "username": "ada"}


def test_a_stranger_to_the_class_sees_no_board(board, ranked):
    assert client_of(Learner.objects.create_user("stranger")).get(URL).status_code == 403


def test_pages_of_the_list_continue_the_ranks(board, ranked):
    api = client_of(ranked[0].learner)
    first = api.get(f"{URL}?page_size=2").json()
    second = api.get(first["next"]).json()
    assert [row["rank"] for row in first["results"] + second["results"]] == [1, 2, 3]
    assert second["next"] is None
    assert api.get(second["previous"]).json()["results"] == first["results"]


def test_an_unchanged_board_answers_304(board, ranked):
    api = client_of(ranked[0].learner)
    tag = api.get(URL)["ETag"]
    assert api.get(URL, headers={"If-None-Match": tag}).status_code == 304
    client_of(ranked[1].learner).delete(OWN)
    assert api.get(URL, headers={"If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize("change", [{"published": False}, {"leaderboard": False}])
def test_the_board_of_an_unpublished_task_or_one_without_is_not_there(board, ranked, change):
    LabTask.objects.update(**change)
    learner = ranked[0].learner
    api = client_of(learner)
    assert api.get(URL).status_code == api.get(OWN).status_code == put(learner).status_code == 404


def test_a_task_says_how_it_is_ranked(board, learner):
    told = client_of(learner).get("/api/v1/tasks/moe-balance-hbm/").json()["leaderboard"]
    assert told["url"].endswith(URL)
    assert (told["metric"], told["unit"], told["more_is_better"]) == (METRIC, "ratio", False)


def test_the_examples_have_the_shape_of_real_answers(board, ranked, offering, graded):
    api = client_of(ranked[0].learner)
    task = api.get("/api/v1/tasks/moe-balance-hbm/").json()
    assert outline(task) == outline(RANKED_TASK)
    assert outline(api.get(URL).json()["results"][0]) == outline(examples.LEADERBOARD_ROW)
    assert outline(api.get(OWN).json()) == outline(examples.LEADERBOARD_ENTRY)
    shown = client_of(staff_of(offering)).get(f"{URL}?offering=open").json()["results"][0]
    assert outline(shown) == outline(examples.LEADERBOARD_STAFF_ROW)
    late = make_learner("late", offering)
    graded(late)
    assert outline(put(late, "Latecomer").json()) == outline(examples.COMPUTING_ENTRY)


# What never leaves ---------------------------------------------------------------------------------


@pytest.mark.parametrize("state", FinalRun.State.values)
def test_neither_seed_nor_instance_nor_edition_leaves_in_any_state(board, ranked, state, offering):
    marks = (*hidden_texts(board), edition(board), "zq-fault-zq")
    score = 1.0 if state == "ready" else None
    FinalRun.objects.update(state=state, score=score, fault="zq-fault-zq", reason="It crashed.")
    looking = make_learner("looking", offering)
    run = f"/api/v1/runs/{ranked[0].final_runs.get().run.public_id}/"
    task, page = "/api/v1/tasks/moe-balance-hbm/", "/labs/classes/open/tasks/moe-balance-hbm/"
    places = [URL, OWN, task, "/api/v1/tasks/", run, f"{run}report/", "/api/v1/runs/"]
    places += [f"{task}attempts/", page, f"{page}leaderboard/"]
    for who in (ranked[0].learner, looking):
        for address in places:
            text = answer_to(who, address)
            assert not [mark for mark in marks if mark in text], address
        assert not [mark for mark in marks if mark in put(who, "Another name").content.decode()]
    assert "It crashed." in answer_to(ranked[0].learner, OWN)
    told = str(learner_data(ranked[0].learner, reports=True))
    assert not [mark for mark in marks if mark in told]


def answer_to(who: Learner, address: str) -> str:
    if address.startswith("/api/"):
        return str(client_of(who).get(address).content.decode())
    browser = Client()
    browser.force_login(who)
    answer = browser.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


# A learner's data ----------------------------------------------------------------------------------


def test_an_entry_is_handed_out_with_a_learners_data_and_erased_with_the_learner(board, ranked):
    ada, bob = ranked[0], ranked[1]
    (told,) = learner_data(ada.learner)["leaderboard_entries"]
    assert (told["task"], told["class"], told["display_name"]) == ("moe-balance-hbm", "open", "The ada")
    assert [(row["state"], row["score"]) for row in told["final_runs"]] == [("ready", 0.0)]
    assert erase_learner(ada.learner)["leaderboard entries"] == 1
    rows = client_of(bob.learner).get(URL).json()["results"]
    assert [row["display_name"] for row in rows] == ["The bob", "The eve"]
    assert FinalRun.objects.count() == 2


# The admin -----------------------------------------------------------------------------------------


@pytest.fixture
def author(client: Client, db: None) -> Client:
    make_author_group()
    person = Learner.objects.create_user("author", is_staff=True)
    person.groups.add(Group.objects.get(name="Authors"))
    client.force_login(person)
    return client


def test_staff_see_all_entries_with_scores_and_cannot_change_a_name(author, ranked):
    shown = author.get("/admin/labs/leaderboardentry/").content.decode()
    for entry in ranked:
        assert entry.display_name in shown and entry.learner.username in shown
    one = f"/admin/labs/leaderboardentry/{ranked[0].pk}/change/"
    assert author.get(one).status_code == 200
    author.post(one, {"display_name": "Renamed"})
    assert LeaderboardEntry.objects.get(pk=ranked[0].pk).display_name == "The ada"


def test_staff_take_an_entry_away(author, ranked):
    author.post(f"/admin/labs/leaderboardentry/{ranked[0].pk}/delete/", {"post": "yes"})
    assert not LeaderboardEntry.objects.filter(pk=ranked[0].pk).exists()
    assert "The ada" not in str(list(LogEntry.objects.values()))


def test_staff_have_failed_final_runs_computed_again(author, ranked, child):
    FinalRun.objects.filter(entry=ranked[0]).update(state="failed", score=None, tries=3, reason="It crashed.")
    chosen = {"action": "compute_again", "_selected_action": [entry.pk for entry in ranked]}
    page = author.post("/admin/labs/leaderboardentry/", chosen, follow=True)
    assert "1 final run(s) wait for a worker." in page.content.decode()
    child(0.5)
    compute_all()
    assert ranked[0].final_runs.get().score == 0.5


def test_the_admin_refuses_a_metric_that_the_lab_does_not_report_beside_its_field(author, task):
    form = {
        "activity": task.activity_id,
        "lab": task.lab_id,
        "kind": task.kind,
        "prompt": task.prompt,
        "rubric": json.dumps(task.rubric),
        "staff_points": "[]",
        "attempts_allowed": 3,
        "published": "on",
        "leaderboard": "on",
        "leaderboard_better": "less",
    }
    address = f"/admin/labs/labtask/{task.pk}/change/"
    refused = author.post(address, form | {"leaderboard_metric": "nonsense"}).content.decode()
    assert "no single-number metric &#x27;nonsense&#x27;" in refused
    assert author.post(address, form | {"leaderboard_metric": METRIC}).status_code == 302
    task.refresh_from_db()
    assert (task.leaderboard, task.leaderboard_metric, task.leaderboard_better) == (True, METRIC, "less")
