"""Submissions to the MoE lab's tasks: each fault points at its place in the request's body."""

import pytest

from labs.api.schemas import artefact_schema, open_parameter_schema
from labs.validation import check_params, check_submission
from quiz.errors import InvalidInput
from simworkers.catalog import get_job
from simworkers.moe.params import MoeParams

JOB = get_job("moe-eplb")
PLACING = JOB.tasks["place-it"]
DRAWN = MoeParams(num_layers=1, eplb=True, redundant_slots_per_gpu=1).model_dump()
RIGHT = [0, 1, 0, 2, 3, 2, 4, 5, 4, 6, 7, 6]
PREDICTION = {"max_over_mean": 1.2}


def faults(check):
    with pytest.raises(InvalidInput) as caught:
        check()
    return dict(caught.value.errors)


def submit(artefact, params=None, prediction=PREDICTION, kind=PLACING):
    return check_submission(JOB, kind, DRAWN, params or {}, prediction, artefact)


def test_a_placement_becomes_a_parameter_of_the_run():
    checked = submit({"placement": [RIGHT]})
    assert checked.artefact is not None
    assert checked.params["placement"] == checked.artefact["placement"] == [RIGHT]


@pytest.mark.parametrize(
    ("placement", "pointer", "sentence"),
    [
        ([[*RIGHT[:4], 5, *RIGHT[5:]]], "/artefact/placement/0", "layer 0 has no slot for expert 3"),
        ([RIGHT[:-1]], "/artefact/placement/0", "layer 0 has 11 slots; it needs 12, 3 on each GPU"),
        ([[*RIGHT[:2], 9, *RIGHT[3:]]], "/artefact/placement/0/2", "there is no expert 9; there are 0 … 7"),
        ([RIGHT, RIGHT], "/artefact/placement", "has 2 layers; it needs num_layers = 1"),
    ],
)
def test_a_wrong_placement_is_refused_at_its_place(placement, pointer, sentence):
    assert faults(lambda: submit({"placement": placement})) == {pointer: sentence}


def test_a_task_that_asks_for_an_artefact_takes_no_run_without_one():
    assert faults(lambda: submit(None)) == {"/artefact": "is what this task asks for"}


def test_a_placement_as_a_parameter_is_no_way_around_the_artefact():
    assert faults(lambda: submit({"placement": [RIGHT]}, {"placement": [RIGHT]})) == {
        "/params/placement": "is set by this task"
    }


@pytest.mark.parametrize("name", ["own_text", "own_text_weight", "placement"])
@pytest.mark.parametrize("kind", JOB.tasks.values(), ids=list(JOB.tasks))
def test_what_belongs_to_free_runs_stands_on_no_form_of_a_task(kind, name):
    assert name not in open_parameter_schema(JOB, kind)["properties"]


def test_a_straggler_that_the_instance_does_not_have_is_refused():
    kind = JOB.tasks["predict-straggler"]
    check = lambda: submit(None, prediction={"straggler_gpu": 4, "max_over_mean": 2}, kind=kind)  # noqa: E731
    assert faults(check) == {"/prediction/straggler_gpu": "there is no GPU 4; this instance has GPUs 0 … 3"}


def test_the_artefacts_schema_says_what_a_slot_is():
    schema = artefact_schema(PLACING)
    assert schema is not None
    assert schema is not None
    assert schema["required"] == ["placement"]
    assert "[layer][slot]" in schema["properties"]["placement"]["description"]


@pytest.mark.parametrize("text", ["", "\x00\x01", "ä" * 131_073])
def test_own_text_that_is_none_is_refused_at_its_field(text):
    assert list(faults(lambda: check_params(JOB, {"own_text_weight": 1, "own_text": text}))) == [
        "/params/own_text"
    ]


def test_a_free_run_takes_a_placement_and_a_text_of_the_learners_own():
    params = check_params(
        JOB,
        {
            "num_layers": 1,
            "eplb": True,
            "redundant_slots_per_gpu": 1,
            "placement": [RIGHT],
            "own_text": "Guten Tag",
            "own_text_weight": 3,
        },
    )
    assert (params["placement"], params["own_text"]) == ([RIGHT], "Guten Tag")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_k", True),
        ("top_k", "2"),
        ("top_k", 2.0),
        ("num_gpus", True),
        ("num_gpus", "4"),
        ("eplb", 1),
        ("eplb", "true"),
        ("hbm_budget_gb", "5"),
        ("hbm_budget_gb", True),
    ],
)
def test_a_parameter_of_another_json_type_is_refused_at_its_field(name, value):
    assert list(faults(lambda: check_params(JOB, {name: value}))) == [f"/params/{name}"]


def test_a_whole_number_is_a_number_too():
    assert check_params(JOB, {"hbm_budget_gb": 5})["hbm_budget_gb"] == 5.0


def test_true_is_no_slot_and_no_prediction():
    kind = JOB.tasks["predict-straggler"]
    prediction = {"straggler_gpu": True, "max_over_mean": "2"}
    assert set(faults(lambda: submit(None, prediction=prediction, kind=kind))) == {
        "/prediction/straggler_gpu",
        "/prediction/max_over_mean",
    }
    assert list(faults(lambda: submit({"placement": [[True, *RIGHT[1:]]]}))) == ["/artefact/placement/0/0"]
