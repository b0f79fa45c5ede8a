"""The task `warm-turn-2` tells people apart: over 20 seeds the references separate by a stated gap."""

import pytest

from labs.rubric import grade
from simworkers.multimodal import warm_turn_task
from simworkers.multimodal.params import BLOCK_SIZE, MultimodalParams
from simworkers.multimodal.simulate import simulate
from simworkers.multimodal.warm_turn_task import prepare
from tests.simworkers.multimodal.tasks import (
    KINDS,
    SEEDS,
    instance,
    measured,
    references,
    result,
    rubric,
    share,
    silent,
)

KIND = "warm-turn-2"


def graded(seed, **changes):
    """Score of the expert's settings with some changed, without the credit for a prediction."""
    prepared, expert = instance(KIND, seed), references(KIND, seed)["expert"]
    params = MultimodalParams.model_validate(prepared.params | expert.params | changes)
    sheet = grade(simulate(params, prepared.seed, silent).metrics, rubric(KIND), prediction=expert.prediction)
    rows = [row for row in sheet.criteria if row.kind != "prediction_made"]
    return float(sum(row.earned for row in rows) / sum(row.points for row in rows))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_references_separate_by_the_stated_gap(seed):
    naive, misconception, expert = (result(KIND, seed, who) for who in ("naive", "misconception", "expert"))
    assert naive == 0
    assert misconception <= 0.3
    assert expert >= 0.85


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_one_id_for_a_chat_earns_nothing_and_half_the_budget_for_embeddings_not_much(seed):
    assert result(KIND, seed, "one_id") == 0
    assert result(KIND, seed, "halves") <= min(0.75, result(KIND, seed, "expert") - 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_cold_and_warm_lie_a_fifth_apart_and_today_is_above_the_budget(seed):
    metrics = measured(KIND, seed, "naive")
    assert metrics["server_later_cold_us"] >= 1.2 * metrics["server_later_warm_us"]
    assert not metrics["within_budget"]


@pytest.mark.slow
def test_an_id_for_each_picture_is_as_good_to_the_prefix_cache_and_one_for_the_chat_mistakes_pictures():
    assert share(KIND, 0, "ids", "warm") >= 0.8
    assert measured(KIND, 0, "ids")["wrong_pictures"] == 0
    assert measured(KIND, 0, "one_id")["wrong_pictures"] >= measured(KIND, 0, "one_id")["images"] // 6
    assert share(KIND, 0, "one_id", "warm") >= 0.8  # and yet the clock would not tell


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_lesson_alone_earns_nothing_since_the_default_caches_break_the_budget(seed):
    defaults = {name: instance(KIND, seed).params[name] for name in ("kv_blocks", "encoder_cache_embeddings")}
    assert graded(seed, **defaults) == 0


@pytest.mark.slow
def test_the_attached_file_itself_earns_nothing_however_warm_it_makes_the_turns():
    assert graded(0, client="same_bytes") == 0


@pytest.mark.slow
def test_a_salt_for_each_turn_makes_the_right_settings_cold():
    assert graded(0, salt="turn") <= 0.3


def test_every_reference_but_todays_setting_fits_the_budget():
    visible = instance(KIND, 0).visible
    for who, submission in references(KIND, 0).items():
        settings = {
            "kv_blocks": visible["today_kv_blocks"],
            "encoder_cache_embeddings": visible["today_encoder_cache_embeddings"],
        } | submission.params
        used = (
            settings["kv_blocks"] * visible["kv_block_bytes"]
            + settings["encoder_cache_embeddings"] * visible["embedding_bytes"]
        )
        assert (used <= visible["cache_budget_mb"] * 1e6) == (who != "naive"), who


def test_one_kv_block_more_than_the_expert_takes_breaks_the_budget():
    visible, expert = instance(KIND, 0).visible, references(KIND, 0)["expert"].params
    used = (expert["kv_blocks"] + 1) * visible["kv_block_bytes"]
    used += expert["encoder_cache_embeddings"] * visible["embedding_bytes"]
    assert used > visible["cache_budget_mb"] * 1e6
    assert visible["block_tokens"] == BLOCK_SIZE


def test_an_instance_is_drawn_from_its_seed_alone_and_what_is_shown_does_not_name_it():
    assert prepare(1, silent) == instance(KIND, 1)
    assert instance(KIND, 0).params != instance(KIND, 1).params
    assert str(instance(KIND, 0).seed) not in repr(instance(KIND, 0).visible)


def test_the_processor_is_locked():
    assert not {"max_image_tokens", "scheme", "tile_px", "image_width_px"} & set(KINDS[KIND].open_parameters)


def test_an_instance_whose_expert_stays_cold_is_drawn_again(monkeypatch):
    monkeypatch.setattr(warm_turn_task, "EXPERT_REACHES", 2.0)
    monkeypatch.setattr(warm_turn_task, "DRAWS", 1)
    with pytest.raises(AssertionError, match="none of 1 draws"):
        prepare(0, silent)
