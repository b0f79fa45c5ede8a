"""What a run names as its first fault, and the turn from which a client's behaviour sets in."""

import pytest

from simworkers.multimodal.diagnosis import Cause, faults, first_fault
from simworkers.multimodal.measure import turn_rows
from simworkers.multimodal.simulate import play
from simworkers.threads import torch_threads
from tests.simworkers.multimodal.runs import params_of


def rows_of(**changes):
    params = params_of(users=1, turns=4, question_tokens=12, **changes)
    with torch_threads(1):
        server, _ = play(params, 1, lambda done, total: None)
    return turn_rows(params, server)


def test_a_chat_that_finds_everything_has_no_fault():
    fault = first_fault(rows_of())
    assert (fault.cause, fault.turn, fault.sign) == (0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"client": "jpeg"}, Cause.OTHER_PIXELS),
        ({"client": "lossless_resave"}, Cause.OTHER_FILE),
        ({"salt": "turn"}, Cause.OTHER_SALT),
        ({"changing_text": True}, Cause.OTHER_TEXT),
    ],
)
@pytest.mark.parametrize("onset", [2, 3])
def test_a_behaviour_that_sets_in_later_shows_in_that_turn(changes, cause, onset):
    fault = first_fault(rows_of(onset_turn=onset, **changes))
    assert (fault.cause, fault.turn) == (cause, onset)


def test_before_the_onset_the_file_stays_as_the_user_attached_it():
    rows = rows_of(onset_turn=4, client="jpeg", second_picture_turn=2)
    assert len({row.pictures[0].file for row in rows[:3]}) == 1
    assert rows[3].pictures[0].file != rows[2].pictures[0].file


def test_two_pictures_under_one_id_are_a_fault_in_the_turn_of_the_second():
    rows = rows_of(identity="client_id", client_id_per="chat", second_picture_turn=3)
    assert first_fault(rows).cause is Cause.SHARED_ID
    assert first_fault(rows).turn == 3


def test_an_id_for_each_picture_is_no_fault():
    assert faults(rows_of(identity="client_id", second_picture_turn=3)) == []


def test_caching_that_is_off_is_a_decision_and_no_fault():
    assert faults(rows_of(prefix_caching=False)) == []
