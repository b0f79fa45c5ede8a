"""Bad parameters are refused at the field that is wrong."""

import base64

import pytest
from pydantic import ValidationError

from simworkers.multimodal.params import MultimodalParams
from tests.simworkers.multimodal.runs import params_of


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("colour", {"colour": 1}),
        ("users", {"users": True}),
        ("users", {"users": "2"}),
        ("users", {"users": 9}),
        ("think_s", {"think_s": float("nan")}),
        ("second_picture_turn", {"second_picture_turn": 4}),
        ("processor_change_turn", {"processor_change_turn": 4}),
        ("tile_px", {"scheme": "tiles", "max_image_tokens": 32}),
        ("kv_blocks", {"kv_blocks": 12, "turns": 8}),
        ("encoder_cache_embeddings", {"encoder_cache_embeddings": 63}),
        ("encoder_budget", {"encoder_budget": 63}),
        ("cluster_encoder_workers", {"cluster_encoder_workers": 3}),
        ("cluster_encoder_workers", {"cluster_encoder_workers": 4}),
        ("own_image", {"picture": "own"}),
        ("own_image", {"own_image": "no base64!"}),
        ("own_image", {"own_image": base64.b64encode(b"plain text").decode()}),
        ("own_image", {"own_image": base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(600_000)).decode()}),
    ],
)
def test_a_wrong_value_is_refused_at_its_field(field, changes):
    with pytest.raises(ValidationError) as caught:
        params_of(**changes)
    assert {error["loc"] for error in caught.value.errors()} == {(field,)}


def test_every_field_has_help_a_unit_and_a_group():
    for name, field in MultimodalParams.model_json_schema()["properties"].items():
        assert field["description"] and "unit" in field and field["group"], name


def test_a_run_that_would_take_too_long_is_refused():
    with pytest.raises(ValidationError, match="s of one core"):
        MultimodalParams(
            users=8,
            turns=8,
            second_picture_turn=1,
            max_image_tokens=640,
            kv_blocks=8192,
            answer_tokens=128,
            question_tokens=512,
            encoder_budget=640,
        )
