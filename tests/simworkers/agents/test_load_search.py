"""The load search against its definition, read out loud: doubling, then the last bracket one by one."""

from hypothesis import given
from hypothesis import strategies as st

from simworkers.agents.load_search import search_load
from tests.simworkers.agents.small_runs import report_of


def by_definition(keeps, most):
    """1, 2, 4 … (the last one `most`) until the floor breaks; then the largest of the bracket with no failure below."""
    loads = [1]
    while loads[-1] < most:
        loads.append(min(2 * loads[-1], most))
    kept = 0
    for load in loads:
        if not keeps(load):
            return max([kept, *(n for n in range(kept + 1, load) if all(map(keeps, range(kept + 1, n + 1))))])
        kept = load
    return kept


def searched(keeps, most):
    tried = []

    def serve(load):
        tried.append(load)
        return f"at {load}"

    found = search_load(serve, lambda said: keeps(int(said.removeprefix("at "))), most)
    assert len(tried) == len(set(tried)), "no load is played twice"
    assert list(found.tried) == tried and all(1 <= load <= most for load in tried)
    assert found.best == (f"at {found.load}" if found.load else None)
    return found


@given(most=st.integers(1, 70), limit=st.integers(0, 80))
def test_on_a_monotone_floor_the_answer_is_the_limit_itself(most, limit):
    assert searched(lambda load: load <= limit, most).load == min(limit, most)


@given(most=st.integers(1, 70), broken=st.sets(st.integers(1, 70)))
def test_on_any_floor_the_answer_is_what_the_definition_says(most, broken):
    def keeps(load):
        return load not in broken

    assert searched(keeps, most).load == by_definition(keeps, most)


@given(most=st.integers(1, 70), broken=st.sets(st.integers(1, 70)))
def test_the_answer_keeps_the_floor_and_the_next_load_of_its_bracket_does_not(most, broken):
    found = searched(lambda load: load not in broken, most)
    assert found.load not in broken or found.load == 0
    assert found.load == most or found.load + 1 in broken


def test_loads_between_the_doublings_are_not_looked_at_where_the_doublings_hold():
    assert searched(lambda load: load not in {3, 5, 6, 7}, 8).load == 8


def test_a_load_that_holds_above_one_that_fails_does_not_count():
    assert searched(lambda load: load in {1, 2, 4, 5, 7}, 8).load == 5


def test_a_floor_that_one_session_breaks_has_no_load():
    found = searched(lambda load: False, 8)
    assert (found.load, found.best, list(found.tried)) == (0, None, [1])


def ended_by(**changes):
    """What the report says of the search's end, and its load."""
    report = report_of(search_load=True, **changes)
    return report.invariants["the_floor_ends_the_search"], report.metrics["search_sessions"]


def test_a_search_that_runs_out_of_sessions_says_that_its_load_is_a_lower_bound():
    found, load = ended_by(floor_tokens_per_s=0.1)
    assert load == report_of().metrics["sessions"]
    assert found.state == "broken_by_setting"
    assert (found.first_event or "").startswith(f"all {load} sessions at once keep the floor as set")
    assert "lower bound" in (found.first_event or "")


def test_a_search_that_the_floor_ends_says_nothing_more():
    found, load = ended_by(floor_tokens_per_s=1000)
    assert (found.state, found.first_event, load) == ("held", None, 0)


def test_without_a_search_nothing_is_said_of_its_end():
    assert "the_floor_ends_the_search" not in report_of().invariants
