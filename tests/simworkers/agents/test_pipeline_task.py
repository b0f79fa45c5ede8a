"""The task `pipeline-or-tensor` tells people apart: over 20 seeds the references separate by a stated gap."""

import statistics
from collections import Counter
from typing import Any

import pytest
from pydantic import ValidationError

from labs.page_forms import build_field, parse
from labs.validation import check_submission
from quiz.errors import InvalidInput
from simworkers import strict_json
from simworkers.agents.params import AgentParams
from simworkers.agents.probe_params import PipelineProbe, ProbesArtefact
from simworkers.agents.tasks import pipeline_task
from simworkers.agents.tasks.pipeline_probe import play_probe, probe_workload
from simworkers.agents.tasks.pipeline_task import margin, prepare
from simworkers.catalog import get_job
from tests.simworkers.agents.tasks import KINDS, SEEDS, instance, measured, references, result, silent

KIND = "pipeline-or-tensor"
PROBE: dict[str, Any] = {
    "link": "network",
    "prompts": "fresh",
    "context_percent": 10,
    "output_percent": 5,
    "sessions_at_once": 16,
    "token_budget": 1024,
}


def pair_of(submission):
    return tuple(PipelineProbe(**submission.artefact[name]) for name in ("pp_wins", "pp_loses"))


def handed_in(seed, artefact):
    """As the platform checks it: against the rule of the instance."""
    return strict_json.check(ProbesArtefact, artefact, context={"params": instance(KIND, seed).params})


@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(seed):
    naive, misconception, expert = (result(KIND, seed, who) for who in references(KIND, seed))
    assert naive == 0
    assert misconception == 0
    assert expert == 1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_expert_shows_both_by_the_stated_margin_with_everyone_served(seed):
    metrics = measured(KIND, seed, "expert")
    assert metrics["pp_wins_ratio"] >= 1.15
    assert metrics["pp_loses_ratio"] <= 1 / 1.15
    assert metrics["probes_completed_share"] >= 0.99


def test_every_field_that_may_differ_is_drawn_and_on_more_than_one_model():
    rules = [instance(KIND, seed).params["probes_rule"]["differ"] for seed in SEEDS]
    assert max(Counter(rules).values()) <= 0.6 * len(SEEDS)
    assert set(rules) == {"link", "prompts", "output_percent", "sessions_at_once"}
    assert len({instance(KIND, seed).params["model"] for seed in SEEDS}) >= 3


def test_what_was_right_for_one_instance_is_refused_or_wrong_for_most_others():
    earned = []
    for seed in SEEDS:
        for other in SEEDS:
            artefact = references(KIND, other)["expert"].artefact
            if other == seed:
                continue
            try:
                handed_in(seed, artefact)
            except ValidationError:
                earned.append(0.0)
                continue
            prepared = instance(KIND, seed)
            params = AgentParams.model_validate(prepared.params)
            pair = pair_of(references(KIND, other)["expert"])
            earned.append(float(margin(params, pair, prepared.seed) >= 1.15))
    assert statistics.fmean(earned) <= 0.2


def test_probes_that_differ_in_more_than_the_rule_allows_are_refused_at_the_second_one():
    seed = next(s for s in SEEDS if instance(KIND, s).params["probes_rule"]["differ"] == "prompts")
    given = {"output_percent": instance(KIND, seed).params["probes_rule"]["output_percent"]}
    wins = PROBE | given
    handed_in(seed, {"pp_wins": wins, "pp_loses": wins | {"prompts": "warm"}})
    with pytest.raises(ValidationError, match="differs in link") as refused:
        handed_in(seed, {"pp_wins": wins, "pp_loses": wins | {"prompts": "warm", "link": "nvlink"}})
    assert [error["loc"] for error in refused.value.errors()] == [("pp_loses",)]


def test_a_probe_without_what_is_given_is_refused_by_the_parameters_as_well():
    rule = {"differ": "link", "output_percent": 40}
    values = {"pp_wins": PROBE, "probes_rule": rule, "compare_policies": False}
    with pytest.raises(ValidationError, match="output_percent has to be 40"):
        strict_json.check(AgentParams, values)


def test_the_platform_refuses_a_broken_rule_with_a_pointer_to_the_probe():
    prepared, kind = instance(KIND, 0), KINDS[KIND]
    right = references(KIND, 0)["expert"]
    assert right.artefact is not None
    artefact = {
        "pp_wins": right.artefact["pp_wins"],
        "pp_loses": right.artefact["pp_loses"] | {"token_budget": 300},
    }
    job = get_job("agent-routing")
    checked = check_submission(job, kind, prepared.params, {}, right.prediction, right.artefact)
    assert checked.params["pp_wins"] == right.artefact["pp_wins"]
    with pytest.raises(InvalidInput) as refused:
        check_submission(job, kind, prepared.params, {}, right.prediction, artefact)
    assert [place for place, _ in refused.value.errors] == ["/artefact/pp_loses"]


def test_a_form_takes_a_probe_as_json_and_leaves_an_empty_one_out():
    schema = AgentParams.model_json_schema()
    field = build_field("pp_wins", schema["properties"]["pp_wins"], "/params/pp_wins", None)
    assert (field.control, field.type) == ("json", "object")
    assert "pp_wins" not in parse(schema, at="/params", data={"/params/pp_wins": ""})


def test_fresh_prompts_find_nothing_and_warm_ones_do():
    fresh = probe_workload(PipelineProbe(**PROBE), 3)
    warm = probe_workload(PipelineProbe(**PROBE | {"prompts": "warm"}), 3)
    asked = [set(turn.chain.runs) for turn in fresh.turns]
    assert len(set.union(*asked)) == sum(map(len, asked))
    asked = [set(turn.chain.runs) for turn in warm.turns]
    assert len(set.union(*asked)) < sum(map(len, asked))
    sizes = [sorted((turn.input_tokens, turn.output_tokens) for turn in one.turns) for one in (fresh, warm)]
    assert sizes[0] == sizes[1]


def test_on_one_gpu_both_ways_are_the_same():
    params = AgentParams(model="qwen3-30b-a3b", tensor_parallel=1, compare_policies=False)
    assert play_probe(params, PipelineProbe(**PROBE), 3).ratio == 1


def test_prompts_that_no_cache_holds_are_told_by_the_share_that_completed():
    params = AgentParams(model="llama-3.1-70b", gpu="h200", tensor_parallel=2, compare_policies=False)
    probe = PipelineProbe(**PROBE | {"context_percent": 100, "prompts": "warm"})
    shares = [
        play_probe(params.model_copy(update={"gpu": gpu}), probe, 3).completed_share
        for gpu in ("h200", "b200")
    ]
    assert shares[0] <= shares[1] <= 1


def test_an_instance_is_drawn_from_its_seed_alone_and_what_is_shown_does_not_name_it():
    assert prepare(0, silent) == instance(KIND, 0)
    assert instance(KIND, 0).params != instance(KIND, 1).params
    assert str(instance(KIND, 0).seed) not in repr(instance(KIND, 0).visible)


def test_only_the_two_probes_are_handed_in():
    assert KINDS[KIND].open_parameters == ()
    artefact = KINDS[KIND].artefact
    assert artefact is not None
    assert set(artefact.model_fields) == {"pp_wins", "pp_loses"}


def test_a_machine_on_which_no_pair_turns_the_result_round_is_drawn_again(monkeypatch):
    monkeypatch.setattr(pipeline_task, "PRACTICE_MARGIN", 100.0)
    monkeypatch.setattr(pipeline_task, "DRAWS", 1)
    with pytest.raises(AssertionError, match="none of 1 draws"):
        prepare(0, silent)
