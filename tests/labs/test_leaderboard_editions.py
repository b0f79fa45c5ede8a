"""Where a leaderboard is, and what its final instance is."""

import json
import shutil

import pytest
from django.core.exceptions import ValidationError

from labs.leaderboard import add_missing_final_runs, edition, final_seed
from labs.loading import load_labs
from labs.models import FinalRun, LabTask
from labs.services import draw_seed
from quiz.content import InvalidContent
from tests.labs.conftest import FIXTURES, make_learner
from tests.labs.leaderboards import METRIC, board, child, compute_all, entered, graded, names
from tests.labs.trace_files import ready, stored

__all__ = ["board", "child", "entered", "graded", "stored"]  # fixtures


# The author's switch -------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["nonsense", "observed_load"])
def test_a_leaderboard_needs_a_single_number_that_the_lab_reports(task, metric):
    task.leaderboard, task.leaderboard_metric = True, metric
    with pytest.raises(ValidationError, match="no single-number metric"):
        task.full_clean()


def test_a_leaderboard_without_a_metric_is_refused(task):
    task.leaderboard = True
    with pytest.raises(ValidationError, match="needs a metric"):
        task.full_clean()


def test_a_labs_file_switches_the_leaderboard_and_says_what_is_better(lab, tmp_path):
    for path in FIXTURES.glob("moe-*"):
        shutil.copy(path, tmp_path)
    content = json.loads((tmp_path / "moe-eplb.json").read_text())
    content["tasks"][0]["leaderboard"] = {"metric": METRIC, "better": "less"}
    (tmp_path / "moe-eplb.json").write_text(json.dumps(content))
    load_labs(tmp_path)
    task = LabTask.objects.get(activity__slug=content["tasks"][0]["activity"])
    assert (task.leaderboard, task.leaderboard_metric, task.leaderboard_better) == (True, METRIC, "less")
    assert lab.tasks.filter(leaderboard=True).count() == 1


@pytest.mark.parametrize(
    ("board_file", "said"),
    [
        ({"metric": "nonsense", "better": "less"}, "leaderboard_metric: The lab moe-eplb has no"),
        ({"metric": METRIC, "better": "fewer"}, "leaderboard.better"),
        ({"metric": METRIC}, "leaderboard.better: Field required"),
    ],
)
def test_a_labs_file_with_a_wrong_leaderboard_is_refused_with_file_and_field(lab, tmp_path, board_file, said):
    for path in FIXTURES.glob("moe-*"):
        shutil.copy(path, tmp_path)
    content = json.loads((tmp_path / "moe-eplb.json").read_text())
    content["tasks"][0]["leaderboard"] = board_file
    (tmp_path / "moe-eplb.json").write_text(json.dumps(content))
    with pytest.raises(InvalidContent, match=said):
        load_labs(tmp_path)


# What the final instance is ------------------------------------------------------------------------


def test_the_final_seed_is_nobodys_attempt_and_hangs_on_the_secret(board, offering, learner, settings):
    seeds = {draw_seed(task=board, offering=offering, learner=learner, number=n) for n in range(1, 50)}
    seed, named = final_seed(board), edition(board)
    assert 0 <= seed < 2**63 and seed not in seeds
    settings.SECRET_KEY = "another secret, long enough to be one"
    assert final_seed(board) != seed and edition(board) != named


def test_every_task_has_a_final_instance_of_its_own(lab, task):
    assert len({final_seed(one) for one in lab.tasks.all()}) == lab.tasks.count()


def test_what_makes_scores_incomparable_makes_another_edition(board, monkeypatch):
    first = edition(board)
    board.leaderboard_metric = "sampling_floor"
    second = edition(board)
    board.leaderboard_metric = METRIC
    board.rubric["criteria"][1]["equals"] = 2
    third = edition(board)
    board.rubric["criteria"][1]["equals"] = 1
    assert edition(board) == first
    monkeypatch.setattr("labs.leaderboard.engine_version", lambda slug: "another")
    assert len({first, second, third, edition(board)}) == 4


def test_words_of_the_rubric_and_the_direction_leave_the_edition_as_it_is(board):
    first = edition(board)
    board.rubric["criteria"][1]["feedback"] = "Said more kindly."
    board.leaderboard_better = LabTask.Better.MORE
    assert edition(board) == first


def test_another_default_trace_makes_another_edition(board, offering):
    first = edition(board)
    board.lab.default_trace = ready(make_learner("eve", offering))
    assert edition(board) != first


def test_while_the_rubric_cannot_be_read_nobody_is_ranked_and_nothing_computed(
    board, offering, entered, child
):
    entered("ada")
    child()
    compute_all()
    rubric = board.rubric
    board.rubric = {"criteria": []}
    board.save()
    add_missing_final_runs()
    assert names(board, offering) == [] and FinalRun.objects.count() == 1
    board.rubric = rubric
    assert names(board, offering) == ["The ada"]
