"""The task `diagnose` tells people apart, and telemetry alone is enough to solve it."""

import functools
import statistics
from collections import Counter
from itertools import product

import pytest

from labs.rubric import grade
from simworkers.multimodal.diagnose_task import CAUSES, DRAWS, TURNS, Plan, draw_plan, plant, reason
from simworkers.multimodal.diagnosis import DECIDING, Cause, Sign, first_fault
from simworkers.multimodal.measure import turn_rows
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.prediction import CAUSES as CAUSE_NAMES
from simworkers.multimodal.prediction import SIGNS
from simworkers.multimodal.simulate import play
from simworkers.multimodal.telemetry import read_table
from simworkers.rng import Stream
from simworkers.threads import torch_threads
from tests.simworkers.multimodal.tasks import SEEDS, instance, measured, references, rubric, silent

KIND = "diagnose"


@functools.cache
def truth(seed):
    """What the graded run measures of the fault, without the stages that decide nothing of it."""
    params = MultimodalParams.model_validate(instance(KIND, seed).params)
    with torch_threads(1):
        server, _ = play(params, instance(KIND, seed).seed, silent)
    fault = first_fault(turn_rows(params, server))
    return {"fault_cause": fault.cause, "fault_turn": fault.turn, "fault_sign": fault.sign}


def score(seed, prediction):
    return float(grade(truth(seed), rubric(KIND), prediction=prediction).score)


def told(seed, who):
    return references(KIND, seed)[who].prediction


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_telemetry_alone_names_cause_turn_and_sign(seed):
    assert score(seed, told(seed, "expert")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_can_be_planted_and_found_from_telemetry(cause):
    plan = Plan(cause, 4)
    tries = (plant(plan, Stream(5, "planted", attempt), silent) for attempt in range(30))
    prepared = next(one for one in tries if one is not None)
    assert reason(prepared.visible) == (cause, 4)


@pytest.mark.slow
def test_the_references_separate_by_the_stated_gap():
    means = {
        who: statistics.fmean(score(seed, told(seed, who)) for seed in SEEDS) for who in references(KIND, 0)
    }
    assert means["naive"] <= 0.05
    assert means["misconception"] <= 0.45
    assert means["expert"] == 1


@pytest.mark.slow
def test_no_fixed_guess_is_right_more_than_once_in_twenty_seeds():
    guesses = [
        {"cause": cause.value, "turn": turn, "sign": DECIDING[cause].value}
        for cause, turn in product(CAUSES, range(1, 9))
    ]
    assert max(statistics.fmean(score(seed, guess) for seed in SEEDS) for guess in guesses) <= 0.05


def test_over_all_seeds_a_fixed_guess_is_right_less_than_once_in_fifty():
    drawn = Counter((plan.cause, plan.turn) for plan in map(draw_plan, range(1000, 2080)))
    assert max(drawn.values()) / drawn.total() < 0.02


@pytest.mark.slow
def test_a_cause_in_the_wrong_turn_and_a_sign_of_another_cause_earn_nothing():
    for seed in SEEDS:
        right = told(seed, "expert")
        assert score(seed, right | {"turn": right["turn"] + 1}) == 0
        assert score(seed, right | {"cause": right["cause"] % 9 + 1}) == 0
        assert score(seed, right | {"sign": Sign.PREEMPTIONS.value}) == pytest.approx(0.6)


@pytest.mark.slow
def test_a_whole_run_reports_the_same_fault():
    report = measured(KIND, 0, "expert")
    assert {name: report[name] for name in truth(0)} == truth(0)


@pytest.mark.slow
def test_harmless_features_look_like_faults():
    """Full encoder caches, second pictures and prefix caching that is off also stand beside other causes."""
    others = [
        instance(KIND, seed)
        for seed in SEEDS
        if truth(seed)["fault_cause"] not in (Cause.ENCODER_CACHE, Cause.PREPROCESSING_CACHE, Cause.SHARED_ID)
    ]
    assert any(not one.params["prefix_caching"] for one in others)
    assert any(one.params["second_picture_turn"] for one in others)
    assert any(is_full(one.visible, "kv_blocks_used", "kv_blocks_capacity", 1) for one in others)
    picture = max(one.params["max_image_tokens"] for one in others)
    assert any(
        is_full(one.visible, "encoder_cache_used", "encoder_cache_capacity", picture) for one in others
    )


def is_full(visible, used, capacity, room):
    """Whether less than this much room is left in the last turn."""
    return read_table(visible["turns"])[-1][used] > visible[capacity] - room


CAPACITIES = ("kv_blocks_capacity", "encoder_cache_capacity", "patch_bytes_capacity")


@functools.cache
def planted():
    """(cause, scene) for every cause and turn."""
    return [(cause, first_scene(Plan(cause, turn))) for cause in CAUSES for turn in range(2, TURNS + 1)]


def first_scene(plan):
    drawn = (plant(plan, Stream(7, "alike", *pair(plan), attempt), silent) for attempt in range(DRAWS))
    return next(one for one in drawn if one is not None)


def pair(plan):
    return int(plan.cause), plan.turn


def scalars(visible):
    """What can be read off a scene without a look at any one turn."""
    pictures = read_table(visible["pictures"])
    return {name: visible[name] for name in CAPACITIES} | {
        "largest picture": max(row["tokens"] for row in pictures),
        "pictures": max(row["picture"] for row in pictures),
        "users": max(row["user"] for row in pictures),
    }


def best_threshold(ours, others):
    """How well the best threshold tells these from those: from 0.5, no better than a coin, to 1."""
    found = []
    for limit in {*ours, *others}:
        below = [statistics.fmean(value <= limit for value in values) for values in (ours, others)]
        found.append((1 + abs(below[0] - below[1])) / 2)
    return max(found)


@pytest.mark.slow
@pytest.mark.parametrize("cause", CAUSES)
def test_no_visible_scalar_tells_a_cause_from_the_others(cause):
    for name in scalars(planted()[0][1].visible):
        ours, others = (
            [scalars(one.visible)[name] for drawn, one in planted() if (drawn is cause) == is_ours]
            for is_ours in (True, False)
        )
        assert best_threshold(ours, others) < 0.9, name
        if name in CAPACITIES:
            assert len(set(ours)) > len(ours) / 2, f"{name} is a constant"


@pytest.mark.slow
def test_a_second_picture_comes_in_any_turn_whatever_the_cause():
    needs_none = [
        one.params["second_picture_turn"]
        for cause, one in planted()
        if cause not in (Cause.SHARED_ID, Cause.ENCODER_CACHE, Cause.PREPROCESSING_CACHE)
    ]
    assert {0, *range(2, TURNS + 1)} == set(needs_none)


@pytest.mark.slow
def test_what_is_shown_names_no_setting_and_no_reason():
    hidden = {
        "client",
        "identity",
        "salt",
        "changing_text",
        "onset_turn",
        "client_id_per",
        "processor_change_turn",
    }
    for seed in SEEDS:
        visible = instance(KIND, seed).visible
        columns = {*visible["turns"][0], *visible["pictures"][0]}
        assert not hidden & (columns | set(visible))
        assert not {"preprocess", "encode", "prefix", "reusable_tokens"} & columns
        assert str(instance(KIND, seed).seed) not in repr(visible)


def test_the_numbers_of_the_choice_are_those_of_causes_and_signs():
    assert list(CAUSE_NAMES) == [cause.value for cause in CAUSES]
    assert {sign.value: sign.name.lower() for sign in Sign if sign} == SIGNS
    assert len(set(DECIDING.values())) == len(DECIDING)
