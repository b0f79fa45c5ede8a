"""What is told of a run: its story as events, and what an id replays."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labs.streaming.events import BEFORE_ALL, Snapshot, events_after, position_of, story

QUEUED = Snapshot("queued", 0, 0, None, "", False)


def snapshot(**changes: Any) -> Snapshot:
    return Snapshot(**{**QUEUED.__dict__, **changes})


def told(now: Snapshot, after: str = "") -> list[str]:
    """Each event in short."""
    seen = position_of(after) if after else BEFORE_ALL
    return [" ".join([e.name, *map(str, e.data.values())]).strip() for e in events_after(seen, now)]


def test_a_run_that_waits_is_told_as_queued():
    assert told(QUEUED) == ["state queued 0"]


def test_a_run_that_computes_is_told_with_its_progress():
    running = snapshot(state="running", tries=1, done=7, total=24)
    assert told(running) == ["state queued 0", "state running 1", "progress 7 24"]


def test_before_the_child_has_begun_there_is_no_progress():
    assert told(snapshot(state="running", tries=1)) == ["state queued 0", "state running 1"]


def test_a_run_taken_back_to_the_queue_is_told_with_the_reason():
    assert told(snapshot(tries=1, reason="It crashed."), after="1.8") == ["state queued 1 It crashed."]


def test_what_passed_unseen_is_told_in_order():
    graded = snapshot(state="graded", tries=2, done=24, total=24, figures=True)
    assert told(graded, after="1.8") == [
        *("state queued 1", "state running 2", "progress 24 24", "state graded 2"),
        *("result-ready", "figures-ready"),
    ]


@pytest.mark.parametrize("end", ["failed", "cancelled", "timed_out"])
def test_an_end_without_a_result_is_the_last_event(end):
    ended = snapshot(state=end, tries=1, reason="why")
    assert told(ended, after="1.0") == [f"state {end} 1 why"]
    assert ended.is_over


def test_a_run_cancelled_in_the_queue_was_never_running():
    assert told(snapshot(state="cancelled", reason="")) == ["state queued 0", "state cancelled 0"]


def test_a_graded_run_is_over_only_with_its_figures():
    assert not snapshot(state="graded", tries=1).is_over
    assert snapshot(state="graded", tries=1, figures=True).is_over


snapshots = st.builds(
    Snapshot,
    state=st.sampled_from(["queued", "running", "graded", "failed", "cancelled", "timed_out"]),
    tries=st.integers(1, 4),
    done=st.integers(0, 50),
    total=st.one_of(st.none(), st.integers(50, 60)),
    reason=st.text(max_size=5),
    figures=st.booleans(),
)


@given(snapshots, st.data())
def test_an_id_replays_exactly_what_came_after_it(now, data):
    everything = list(story(now))
    heard = data.draw(st.integers(1, len(everything)))
    last = position_of(str(everything[heard - 1].position))
    assert list(events_after(last, now)) == everything[heard:]


@given(snapshots)
def test_ids_only_grow(now):
    positions = [event.position for event in story(now)]
    assert positions == sorted(set(positions))


@given(snapshots)
def test_an_event_is_four_lines_whatever_its_text(now):
    for event in story(now):
        assert len(event.encode().splitlines()) == 4


@pytest.mark.parametrize(
    "text", ["", "1", "1.", ".1", "-1.0", "1.0.0", "a.b", "¹.0", "9" * 20 + ".0", "1 .0"]
)
def test_what_is_no_id_is_refused(text):
    with pytest.raises(ValueError, match="id"):
        position_of(text)
