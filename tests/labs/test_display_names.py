"""Under which name somebody stands on a leaderboard."""

from importlib import import_module

import pytest
from django.apps import apps

from labs.display_names import checked_name
from labs.leaderboard import enter
from labs.models import LeaderboardEntry
from quiz.errors import InvalidInput
from quiz.models import Offering
from quiz.names import key_of
from tests.labs.conftest import make_learner
from tests.labs.leaderboards import board, entered, graded

__all__ = ["board", "entered", "graded"]  # fixtures


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("  Quiet   router ", "Quiet router"),
        ("Жанна д’Арк", "Жанна д’Арк"),
        ("ﬁve ①", "five 1"),
        ("R2-D2_v1.0", "R2-D2_v1.0"),
        ("נתב שקט", "נתב שקט"),
        ("らーめん AI 二郎", "らーめん AI 二郎"),
        ("라우터 v2", "라우터 v2"),
        ("مسار ٣", "مسار ٣"),
        ("Nguyễn Thị Ánh", "Nguyễn Thị Ánh"),
    ],
)
def test_a_name_is_kept_in_one_spelling(text, kept):
    assert checked_name(text) == kept


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "x" * 41,
        "<b>bold</b>",
        "ada@example.org",
        "a & b",
        "[link](x)",
        "-ada",
        "left\u202eright",
        "zero\u200bwidth",
        "hangul\u3164filler",
        "nul\x00",
        "e\u0301\u0302\u0303\u0304",
        "\u0301\u0302",
        "rocket \U0001f680",
        "\u02bb-",  # a letter that looks like an apostrophe
        "\u0410lice",  # Cyrillic and Latin
        "Ali\u03c1e",  # Latin and Greek
        "\u13aa\u13de\u13c6\u13df\u13ac",  # Cherokee
        "ルータ 라우터",
    ],
)
def test_markup_addresses_and_what_nobody_can_read_are_refused(text):
    with pytest.raises(ValueError):
        checked_name(text)


def test_names_that_look_alike_are_one(board, offering, entered):
    entered("ada", "Quiet Router")
    with pytest.raises(InvalidInput, match="taken or not allowed"):
        entered("bob", "quiet-router.")
    with pytest.raises(InvalidInput, match="taken or not allowed"):
        entered("eve", "Quìet Router")
    assert key_of("Quiet Router") == key_of("quiet-router.")


def test_of_two_names_of_one_script_each_that_look_alike_the_second_is_taken(board, offering, entered):
    entered("ada", "coco")
    with pytest.raises(InvalidInput, match="taken or not allowed"):
        entered("bob", "сосо")


@pytest.mark.parametrize("name", ["Grace.H", "grace h", "grace.h-org example", "Grace"])
def test_ones_own_login_and_address_are_no_display_name(board, offering, graded, name):
    learner = make_learner("grace.h", offering)
    learner.email = "grace@org.example"
    learner.save()
    graded(learner)
    if name == "grace.h-org example":
        name = "grace org example"
    with pytest.raises(InvalidInput, match="your login or e-mail address"):
        enter(learner=learner, task=board, offering=offering, display_name=name)


@pytest.mark.parametrize("name", ["eve.smith", "Eve Smith", "Eve-Smith", "evesmith", "EVE_SMlTH"])
def test_the_login_of_another_is_refused_in_the_words_of_a_name_that_is_taken(board, offering, entered, name):
    make_learner("eve.smith", offering)
    with pytest.raises(InvalidInput, match="taken or not allowed"):
        entered("ada", name)


def test_a_name_is_kept_when_it_is_sent_again_after_somebody_took_it_as_a_login(
    board, offering, entered, graded
):
    entry = entered("ada", "Quiet router")
    make_learner("quietrouter", offering)
    again, is_new = enter(learner=entry.learner, task=board, offering=offering, display_name=" Quiet  router")
    assert (again.display_name, is_new) == ("Quiet router", False)
    with pytest.raises(InvalidInput, match="taken or not allowed"):
        enter(learner=entry.learner, task=board, offering=offering, display_name="Quiet-router")


def test_the_upgrade_leaves_two_names_that_have_become_one_to_their_learners(board, offering, entered):
    first, second = entered("ada", "coco"), entered("bob", "other")
    LeaderboardEntry.objects.filter(pk=first.pk).update(name_key="old")
    LeaderboardEntry.objects.filter(pk=second.pk).update(name_key="coco", display_name="\u0421oco")
    import_module("labs.migrations.0013_keys_of_display_names").fill_keys(apps, None)
    keys = dict(LeaderboardEntry.objects.values_list("pk", "name_key"))
    assert keys == {first.pk: "coco", second.pk: f"~{second.pk}"}


def test_the_same_name_may_stand_in_two_classes(board, offering, entered, graded):
    entered("ada", "Quiet router")
    other = Offering.objects.create(course=offering.course, slug="second", title="Second class")
    LeaderboardEntry.objects.create(
        task=board,
        offering=other,
        learner=make_learner("bob", other),
        display_name="Quiet router",
        name_key="quietrouter",
    )
