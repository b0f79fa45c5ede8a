import math

import pytest

from simworkers.multimodal.arrivals import draw_arrivals, exponential_gaps
from simworkers.multimodal.cluster_params import ClusterParams
from simworkers.rng import Stream

MEAN_US = 1_000_000
GAPS = exponential_gaps(Stream(3, "test"), MEAN_US, 40_000)


def test_gaps_have_their_mean():
    assert sum(GAPS) / len(GAPS) == pytest.approx(MEAN_US, rel=0.02)


@pytest.mark.parametrize("means", [0.5, 1.0, 2.0, 4.0])
def test_gaps_longer_than_so_many_means_are_as_rare_as_an_exponential_says(means):
    share = sum(gap > means * MEAN_US for gap in GAPS) / len(GAPS)
    assert share == pytest.approx(math.exp(-means), abs=4 * math.sqrt(math.exp(-means) / len(GAPS)))


def test_a_seed_gives_the_same_gaps_on_every_machine():
    assert exponential_gaps(Stream(7, "gaps"), 250_000, 4) == [172_334, 222_595, 41_427, 80_344]


def test_a_faster_load_is_the_same_load_compressed():
    slow, fast = (draw_arrivals(ClusterParams(requests_per_s=rate), 5) for rate in (1.0, 10.0))
    gaps = [(slow[k].sent_us, fast[k].sent_us) for k in range(200)]
    assert all(abs(late - 10 * early) <= 10 * (k + 1) for k, (late, early) in enumerate(gaps))


def test_no_image_share_means_no_images_and_a_full_one_images_in_every_request():
    assert {arrival.images for arrival in draw_arrivals(ClusterParams(image_share_percent=0), 1)} == {0}
    assert {arrival.images for arrival in draw_arrivals(ClusterParams(images_min=2, images_max=3), 1)} == {
        2,
        3,
    }


def test_more_images_leave_times_texts_and_answers_as_they_were():
    few, many = (draw_arrivals(ClusterParams(images_min=n, images_max=n), 5) for n in (1, 8))
    assert [(a.sent_us, a.text_tokens, a.output_tokens) for a in few] == [
        (a.sent_us, a.text_tokens, a.output_tokens) for a in many
    ]


def test_cached_images_follow_their_share():
    arrivals = draw_arrivals(ClusterParams(encoder_hit_percent=30, num_requests=1000), 1)
    assert sum(a.cached_images for a in arrivals) / sum(a.images for a in arrivals) == pytest.approx(
        0.3, abs=0.03
    )


def test_texts_and_answers_span_their_whole_range():
    params = ClusterParams(text_tokens_min=5, text_tokens_max=7, output_tokens_min=1, output_tokens_max=2)
    arrivals = draw_arrivals(params, 1)
    assert {a.text_tokens for a in arrivals} == {5, 6, 7}
    assert {a.output_tokens for a in arrivals} == {1, 2}


@pytest.mark.parametrize(
    ("fields", "blamed"),
    [
        ({"encoder_workers": 8}, "encoder_workers"),
        ({"encoder_workers": 3}, "tensor_parallel"),
        ({"images_min": 5, "images_max": 4}, "images_max"),
        ({"text_tokens_min": 500}, "text_tokens_max"),
        ({"output_tokens_min": 500}, "output_tokens_max"),
        ({"token_budget": 128}, "max_batch"),
        ({"requests_per_s": float("nan")}, "requests_per_s"),
        ({"gpus": 3}, "gpus"),
    ],
)
def test_parameters_are_refused_by_the_name_of_their_field(fields, blamed):
    with pytest.raises(ValueError, match=blamed):
        ClusterParams.model_validate(fields)


def test_changes_are_checked_like_the_first_values():
    with pytest.raises(ValueError, match="encoder_workers"):
        ClusterParams().with_changes(encoder_workers=9)


def test_every_parameter_has_help_and_bounds_or_a_list_of_values():
    schema = ClusterParams.model_json_schema()["properties"]
    assert all(
        field["description"].endswith(".") or field["description"].endswith(").") for field in schema.values()
    )
    assert all({"enum", "minimum"} & set(field) or field["type"] == "boolean" for field in schema.values())
