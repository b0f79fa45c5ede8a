"""When one name passes for another, and the keys of usernames by which that is found."""

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection
from hypothesis import example, given
from hypothesis import strategies as st

from quiz.models import Learner
from quiz.names import key_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("сосо", "coco"),  # Cyrillic, Latin
        ("ВОВА", "BOBA"),
        ("ΚΑΤΕ", "Kate"),  # Greek
        ("ёлка", "ëлka"),  # a mark on either
        ("Quìet Rοutér", "Quiet Router"),
        ("Nguyễn Thị Ánh", "Nguyen Thi Anh"),
        ("Йод", "Иод"),
        ("Άννα", "Αννα"),
        ("İan", "Ian"),
        ("Ian 10", "lan lO"),
        ("J0\u0308rg", "Jörg"),  # a mark on a figure
        ("Օ\u0308rg", "Örg"),  # and on an Armenian letter
        ("ニロ", "二口"),  # Katakana, Han
        ("O\u02bcBrien", "O'Brien"),
        ("محمد", "محمـد"),  # stretched
    ],
)
def test_letters_that_are_drawn_alike_make_one_name(one, other):
    assert key_of(one) == key_of(other)


@given(st.text(max_size=8))
@example("\u0581\u0658\u1c33")
def test_the_key_of_a_key_is_that_key(name):
    assert key_of(key_of(name)) == key_of(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada 1", "Ada 2"),
        ("Жанна", "Zhanna"),
        ("각", "가"),
        ("が", "か"),
        ("कि", "कु"),
        ("שׁ", "שׂ"),
    ],
)
def test_what_the_eye_tells_apart_are_two_names(one, other):
    assert key_of(one) != key_of(other)


def test_a_username_is_stored_with_its_key(db):
    learner = Learner.objects.create_user(username="Eve.Smith")
    assert Learner.objects.get(name_key=key_of("eve smith")) == learner
    learner.username = "ada"
    learner.save(update_fields=["username"])
    assert Learner.objects.get(name_key=key_of("Ada")) == learner


def test_a_key_is_found_by_an_index(db):
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, Learner._meta.db_table)
    assert ["name_key"] in [one["columns"] for one in found.values() if one["index"]]


def test_the_upgrade_gives_every_account_its_key(db, monkeypatch):
    migration = import_module("quiz.migrations.0005_fill_keys_of_usernames")
    monkeypatch.setattr(migration, "BATCH", 2)
    Learner.objects.bulk_create(Learner(username=f"eve.{number}") for number in range(5))
    assert set(Learner.objects.values_list("name_key", flat=True)) == {""}
    migration.fill_keys(apps, None)
    assert set(Learner.objects.values_list("name_key", flat=True)) == {
        key_of(f"eve{number}") for number in range(5)
    }
