"""Values and scenarios as people read them."""

import re

import pytest

from labs.api.schemas import lab_schema
from labs.metric_table import metric_rows
from labs.page_forms import build
from labs.presentation import Fact, figure_text, labelled, parameter, scenario, unit_in
from simworkers import catalog


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("kv_gb_per_replica", 47, ("KV per replica", "47 GB")),
        ("compute_us_per_1000_tokens", 33165, ("Compute per 1000 tokens", "33.16 ms")),
        ("hbm_percent_for_weights_and_kv", 90, ("HBM for weights and KV", "90%")),
        ("hbm_gb_per_s", 4800, ("HBM bandwidth", "4,800 GB/s")),
        ("sent_s", 914.2, ("Sent", "914.2 s")),
        ("kv_bytes_per_token", 262144, ("KV bytes per token", "262,144")),
        ("link_bytes_per_s", 50e9, ("Link bandwidth", "50 GB/s")),
        ("file_kb", 10.1, ("File", "10.1 kB")),
        ("width_px", 640, ("Width", "640 px")),
        ("host_usd_per_gb", 2, ("Host USD per GB", "2")),
    ],
)
def test_a_unit_that_the_label_leaves_out_stands_beside_the_value(name, value, told):
    assert labelled(name, value, unit_in(name)) == told


def test_a_zero_that_is_no_amount_is_told_in_the_words_of_its_schema():
    part = {"type": "integer", "unit": "tokens", "label": "Prefill cap", "zero": "no limit"}
    schema = {"properties": {"prefill_cap_tokens": part}}
    assert parameter("prefill_cap_tokens", 0, part) == ("Prefill cap", "no limit")
    assert parameter("prefill_cap_tokens", 64, part) == ("Prefill cap", "64 tokens")
    assert scenario({"prefill_cap_tokens": 0}, schema).facts == [Fact("Prefill cap", "no limit")]
    assert metric_rows(schema, {"prefill_cap_tokens": 0})[0].after == "no limit"


def test_a_zero_of_which_the_schema_says_nothing_is_a_number():
    assert parameter("host_gb", 0, {"unit": "GB"}) == ("Host", "0 GB")
    assert parameter("eplb", False, {"unit": "", "zero": "never"}) == ("EPLB", "no")


@pytest.mark.parametrize("value", [None, ""])
def test_a_parameter_that_is_not_set_is_none_and_was_not_to_be_measured(value):
    assert parameter("placement", value, {}) == ("Placement", "none")


@pytest.mark.parametrize("name", catalog.job_names())
def test_what_the_help_of_a_parameter_says_of_0_its_schema_says_too(name):
    amounts = {
        "shared_prefix_tokens",
        "cluster_encoder_workers",
    }  # no tokens and no GPUs: that is what 0 says
    for field, part in lab_schema(catalog.get_job(name), "parameters")["properties"].items():
        if re.search(r"[;.] 0:", part["description"]) and field not in amounts:
            assert part.get("zero"), field


def test_a_value_that_is_called_like_a_metric_after_one_more_word_has_its_unit():
    metrics = {"properties": {"interactivity_p10": {"type": "number", "unit": "tokens/s"}}}
    drawn = scenario({"today_interactivity_p10": 71.0}, {}, metrics)
    assert drawn.facts == [Fact("Today interactivity p10", "71 tokens/s")]


def test_a_record_is_read_as_its_named_values_without_those_that_are_not_set():
    rule = {"differ": "link", "link": None, "sessions_at_once": 64}
    assert figure_text(rule) == "Differ: link, Sessions at once: 64"
    assert figure_text({"link": None}) == "nothing"


def test_a_scenario_may_hold_a_record_of_words_or_an_empty_one():
    drawn = scenario({"given": {"prompts": "warm"}, "none": {}}, {})
    assert drawn.facts == [Fact("Given", "Prompts: warm"), Fact("None", "nothing")]


def test_a_number_that_stands_alone_in_a_record_is_no_bar():
    drawn = scenario({"given": {"output_percent": 20}}, {})
    assert drawn.series == []
    assert drawn.facts == [Fact("Given", "Output: 20%")]


def test_what_a_schema_calls_a_field_wins_over_its_name_everywhere():
    schema = {"properties": {"pool_gb": {"type": "integer", "unit": "GB", "label": "Size of the pool"}}}
    assert scenario({"pool_gb": 3}, schema).facts == [Fact("Size of the pool", "3 GB")]
    assert metric_rows(schema, {"pool_gb": 3})[0].label == "Size of the pool"
    assert build(schema, at="/params", values={})[0].fields[0].label == "Size of the pool"
    titled = {"properties": {"pool_gb": {"type": "integer", "title": "Pool Gb"}}}
    assert build(titled, at="/params", values={})[0].fields[0].label == "Pool"


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"minimum": 1, "maximum": 8000}, "From 1 to 8,000."),
        ({"exclusiveMinimum": 0}, "Above 0."),
        ({"exclusiveMinimum": 0, "maximum": 100}, "Above 0, at most 100."),
        ({"minimum": 0, "exclusiveMaximum": 1}, "At least 0, below 1."),
        ({"minimum": 0}, "At least 0."),
        ({}, ""),
    ],
)
def test_the_range_of_a_number_is_told_with_open_ends_too(limits, told):
    number = {"type": "number"} | limits
    for part in (number, {"anyOf": [number, {"type": "null"}]}):
        (field,) = build({"properties": {"ratio": part}}, at="/prediction", values={})[0].fields
        assert field.bounds == told


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"session": 4, "turn": 21, "input_tokens": 98_969, "sent_s": 766.5},
            "Session: 4, Turn: 21, Input tokens: 98,969, Sent: 766.5 s",
        ),
        ({"turn": 21, "input_tokens": 98_969}, "Turn: 21, Input tokens: 98,969"),
    ],
)
def test_numbers_in_different_units_stand_in_one_line_and_have_no_bars(values, told):
    drawn = scenario({"watched": values}, {})
    assert (drawn.series, drawn.facts) == ([], [Fact("Watched", told)])


@pytest.mark.parametrize(
    "names", [("input_tokens", "output_tokens"), ("first_s", "last_s"), ("chat", "code")]
)
def test_numbers_in_one_unit_or_none_have_bars(names):
    drawn = scenario({"mix": dict.fromkeys(names, 2)}, {})
    assert [share.percent for share in drawn.series[0].shares] == [100, 100]
