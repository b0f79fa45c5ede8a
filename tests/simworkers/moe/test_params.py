import pytest
from pydantic import ValidationError

from simworkers.moe.metrics import MoeMetrics
from simworkers.moe.params import MoeParams
from simworkers.moe.traffic_params import DOMAINS


def test_every_parameter_has_a_unit_a_heading_and_a_sentence():
    for name, field in MoeParams.model_json_schema()["properties"].items():
        assert "unit" in field, name
        assert field["group"], name
        assert field["description"].endswith("."), name


def test_every_metric_has_a_unit_and_a_description():
    for name, field in MoeMetrics.model_json_schema()["properties"].items():
        assert field["unit"], name
        assert field["description"].endswith("."), name


@pytest.mark.parametrize(
    ("values", "field", "part"),
    [
        ({"no_such": 1}, "no_such", "Extra inputs"),
        ({"top_k": 9}, "top_k", "less than or equal to 8"),
        ({"hbm_budget_gb": float("nan")}, "hbm_budget_gb", "finite"),
        ({"hbm_budget_gb": float("inf")}, "hbm_budget_gb", "finite"),
        ({"num_gpus": 3}, "num_gpus", "Input should be"),
        ({"num_gpus": 16}, "num_experts", "leave some of num_gpus = 16 GPUs empty"),
        ({"num_nodes": 8}, "num_nodes", "cannot share num_gpus = 4 GPUs"),
        (
            {"num_nodes": 4, "num_groups": 2, "eplb_policy": "hierarchical"},
            "eplb_policy",
            "num_groups = 2 to divide evenly by num_nodes = 4",
        ),
        ({f"{domain}_weight": 0 for domain in DOMAINS}, "skew_percent", "every domain weight is 0"),
        ({"tokens_per_step": 65536, "top_k": 8, "num_layers": 61}, "num_steps", "at most 48,000,000"),
        (
            {"num_experts": 256, "num_layers": 61, "num_steps": 256, "tokens_per_step": 256},
            "interval_steps",
            "s of one core, at most 72: use fewer num_layers",
        ),
    ],
)
def test_a_wrong_value_is_refused_at_its_field(values, field, part):
    with pytest.raises(ValidationError) as caught:
        MoeParams(**values)
    errors = caught.value.errors()
    assert [error["loc"] for error in errors] == [(field,)]
    assert part in errors[0]["msg"]


def test_parameters_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        MoeParams().top_k = 3  # type: ignore[misc]


@pytest.mark.parametrize(("skew", "share"), [(0, 1 / 6), (50, 7 / 12), (100, 1.0)])
def test_the_skew_moves_the_mix_toward_its_domain(skew, share):
    mix = MoeParams(skew_percent=skew, skew_domain="german").mix()
    assert mix[DOMAINS.index("german")] / sum(mix) == pytest.approx(share)


def test_skew_alone_is_enough_traffic_where_every_weight_is_zero():
    mix = MoeParams(skew_percent=100, **{f"{domain}_weight": 0 for domain in DOMAINS}).mix()
    assert [bool(part) for part in mix] == [domain == "code" for domain in DOMAINS]
