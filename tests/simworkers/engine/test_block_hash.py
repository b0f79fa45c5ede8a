"""Names of KV blocks: equal exactly where the KV is equal."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simworkers.engine.block_hash import extend_hashes
from tests.simworkers.engine.scenes import PLACEHOLDER, image

BLOCK = 4
TOKENS = list(range(1, 13))


def names(tokens=TOKENS, **others):
    found: list[bytes] = []
    extend_hashes(found, tokens, BLOCK, **others)
    return found


def test_only_full_blocks_have_names():
    assert [len(names(TOKENS[:count])) for count in (3, 4, 7, 8)] == [0, 1, 1, 2]


@given(st.lists(st.integers(0, 2**40), max_size=40), st.integers(0, 40))
def test_names_do_not_depend_on_how_often_they_were_extended(tokens, cut):
    found: list[bytes] = []
    extend_hashes(found, tokens[:cut], BLOCK)
    extend_hashes(found, tokens, BLOCK)
    assert found == names(tokens)


def test_a_changed_token_changes_its_block_and_all_later_ones():
    changed = names([*TOKENS[:5], 99, *TOKENS[6:]])
    assert [a == b for a, b in zip(names(), changed, strict=True)] == [True, False, False]


def test_equal_tokens_behind_other_tokens_have_another_name():
    assert names(TOKENS[4:8])[0] != names()[1]


def test_an_image_names_every_block_that_it_overlaps_and_the_chain_behind_them():
    tokens = [1, 2, 3, *[PLACEHOLDER] * 4, 8, 9, 10, 11, 12]
    one, two = (names(tokens, images=(image(name, 3),)) for name in (1, 2))
    assert [a == b for a, b in zip(one, two, strict=True)] == [False, False, False]
    plain = names(tokens[:3] + tokens[7:])
    assert plain[0] not in one


def test_an_image_that_only_touches_a_block_from_outside_does_not_name_it():
    tokens = [*TOKENS[:4], *[PLACEHOLDER] * 4, *TOKENS[:4]]
    assert names(tokens, images=(image(1, 4),))[0] == names(tokens)[0]


def test_the_place_of_an_image_in_its_block_is_part_of_the_name():
    tokens = [PLACEHOLDER] * 8
    earlier, later = (names(tokens, images=(image(1, offset),)) for offset in (0, 1))
    assert earlier[0] != later[0]


def test_of_images_with_equal_placeholders_the_identifier_decides():
    tokens = [PLACEHOLDER] * 4
    same = image(1, 0)
    assert names(tokens, images=(same,)) == names(tokens, images=(image(2, 0, identifier=same.identifier),))
    assert names(tokens, images=(same,)) != names(tokens, images=(replace(same, identifier="other"),))


def test_the_salt_stands_on_the_first_block_and_the_chain_hands_it_on():
    assert not set(names(salt="a")) & set(names(salt="b"))
    assert not set(names(salt="a")) & set(names())


def test_the_weight_version_is_part_of_every_name_where_it_is_given():
    assert not set(names(weight_version=0)) & set(names(weight_version=1))


@pytest.mark.parametrize("salt", ["", "None"])
def test_no_salt_is_not_some_salt(salt):
    assert names(salt=salt) != names(salt=None)
