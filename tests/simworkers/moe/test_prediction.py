import pytest
from pydantic import ValidationError

from simworkers.moe.prediction import BalancePrediction, BreakEvenPrediction

PREDICTION = {"straggler_gpu": 4, "max_over_mean": 1.5}


def test_a_gpu_that_the_instance_does_not_have_is_refused_at_its_field():
    with pytest.raises(ValidationError) as caught:
        BalancePrediction.model_validate(PREDICTION, context={"params": {"num_gpus": 4}})
    (error,) = caught.value.errors()
    assert error["loc"] == ("straggler_gpu",)
    assert "there is no GPU 4; this instance has GPUs 0 … 3" in error["msg"]


@pytest.mark.parametrize("context", [{"params": {"num_gpus": 8}}, None])
def test_a_gpu_of_the_instance_is_taken(context):
    assert BalancePrediction.model_validate(PREDICTION, context=context).straggler_gpu == 4


@pytest.mark.parametrize("tokens", [0, -5, 65_537, 1.5, float("nan")])
def test_a_step_size_that_the_lab_does_not_offer_is_refused(tokens):
    with pytest.raises(ValidationError):
        BreakEvenPrediction(break_even_tokens=tokens)
