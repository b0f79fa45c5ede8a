"""Values of JSON are taken as what they are."""

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from simworkers.strict_json import check, parse


class Knobs(BaseModel):
    size: Literal[1, 2, 4] = 1
    count: int = 0
    share: float = 0.0
    on: bool = False
    name: str = ""
    table: list[tuple[int, Literal[0, 1]]] = []


TYPES: dict[str, Any] = {"size": int, "count": int, "share": (int, float), "on": bool, "name": str}
SCALARS = st.none() | st.booleans() | st.integers(0, 4) | st.floats(0, 4) | st.text("0124", max_size=2)


def places(values):
    with pytest.raises(ValidationError) as caught:
        check(Knobs, values)
    return [error["loc"] for error in caught.value.errors()]


@given(name=st.sampled_from(sorted(TYPES)), value=SCALARS)
def test_a_value_is_kept_as_it_is_or_refused_at_its_place(name, value):
    try:
        kept = getattr(check(Knobs, {name: value}), name)
    except ValidationError as error:
        assert [found["loc"] for found in error.errors()] == [(name,)]
    else:
        assert kept == value
        assert isinstance(value, bool) == isinstance(kept, bool)
        assert isinstance(kept, TYPES[name])


def test_true_is_not_one_of_some_integers_also_inside_a_list():
    assert places({"size": True}) == [("size",)]
    assert places({"table": [[1, 0], [1, True]]}) == [("table", 1, 1)]
    assert check(Knobs, {"table": [[1, 0]]}).table == [(1, 0)]


def test_half_a_character_is_refused_at_its_place():
    assert places({"name": "\ud83d"}) == [("name",)]
    assert check(Knobs, {"name": "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")}).name


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": 1, "a": 1}', '[{"b": {"a": 1, "a": 2}}]'])
def test_what_json_cannot_say_is_not_read(text):
    with pytest.raises(ValueError):
        parse(text)
