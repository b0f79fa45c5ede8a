"""The task `place-it` tells people apart: pasting the balancer's answer earns 60%, patience most of the rest."""

import pytest

from simworkers.moe import placing_task
from simworkers.moe.params import MoeParams
from simworkers.moe.placing_task import prepare
from simworkers.moe.simulate import simulate
from tests.simworkers.moe.tasks import KINDS, SEEDS, instance, measured, params_of, references, result, silent

KIND = "place-it"


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(seed):
    naive, misconception, reference, expert = (result(KIND, seed, who) for who in references(KIND, seed))
    assert naive == 0
    assert misconception <= 0.45
    assert reference == 0.6
    assert expert >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_marks_lie_as_far_apart_as_stated(seed):
    metrics = measured(KIND, seed, "reference")
    bound = metrics["step_node_bound"]
    assert metrics["max_over_mean_reference_mean"] >= 1.05 * bound
    assert metrics["max_over_mean_before_mean"] >= 1.2 * bound


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_beats_the_node_bound(seed):
    for who in references(KIND, seed):
        metrics = measured(KIND, seed, who)
        assert metrics["max_over_mean_mean"] >= metrics["step_node_bound"]


def test_a_run_with_the_pasted_answer_measures_the_reference_itself():
    prepared = instance(KIND, 0)
    report = simulate(params_of(KIND, 0, "reference"), prepared.seed, silent)
    metrics = report.metrics
    assert metrics["max_over_mean_mean"] == metrics["max_over_mean_reference_mean"]
    assert {found.state for found in report.invariants.values()} == {"held"}
    found = measured(KIND, 0, "reference")
    assert {name: metrics[name] for name in found} == found


def test_every_reference_passes_the_checks_of_a_submission():
    prepared = instance(KIND, 0)
    artefact = KINDS[KIND].artefact
    assert artefact is not None
    for submission in references(KIND, 0).values():
        artefact.model_validate(submission.artefact, context={"params": prepared.params})
        KINDS[KIND].prediction.model_validate(submission.prediction)


def test_the_observed_load_is_that_of_the_warm_up():
    """So the balancer's answer to it is what the run's own balancer would do, and the judged steps are unseen."""
    prepared = instance(KIND, 0)
    params = MoeParams.model_validate(prepared.params)
    assert params.warmup_steps == prepared.visible["observed_steps"]
    report = simulate(params, prepared.seed, silent)
    assert report.metrics["placement"] == prepared.visible["balancer_placement"]
    assert report.metrics["expert_load"] != prepared.visible["observed_load"]


def test_an_instance_in_which_nothing_is_left_to_find_is_drawn_again(monkeypatch):
    monkeypatch.setattr(placing_task, "REFERENCE_ABOVE_BOUND", 100.0)
    monkeypatch.setattr(placing_task, "DRAWS", 2)
    with pytest.raises(AssertionError, match="none of 2 draws"):
        prepare(0, silent)
