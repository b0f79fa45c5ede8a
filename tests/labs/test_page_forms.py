"""Forms that schemas become, and what is posted with them."""

import pytest

from labs.api.schemas import lab_schema
from labs.labels import label
from labs.page_forms import build, parse
from simworkers import catalog


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("redundant_slots_per_gpu", "Redundant slots per GPU"),
        ("num_gpus", "Number of GPUs"),
        ("hbm_budget_gb", "HBM budget"),
        ("skew_percent", "Skew"),
        ("max_over_mean", "Max over mean"),
        ("max_over_mean_mean", "Max over mean, mean"),
        ("ttft_mean_us", "TTFT, mean"),
        ("expert_bytes", "Expert bytes"),
        ("image_width_px", "Image width"),
        ("jpeg_quality", "JPEG quality"),
        ("cluster_requests_per_s", "Cluster requests per s"),
    ],
)
def test_a_name_becomes_words(name, words):
    assert label(name) == words


def test_every_parameter_of_every_lab_has_a_field_with_help_and_no_two_share_an_id():
    for name in catalog.job_names():
        schema = lab_schema(catalog.get_job(name), "parameters")
        fields = [field for group in build(schema, at="/params", values={}) for field in group.fields]
        assert [field.name for field in fields] and len({field.id for field in fields}) == len(fields)
        assert all(field.help and field.label for field in fields)
        assert {field.name for field in fields} == set(schema["properties"])


def test_the_defaults_of_a_form_posted_back_are_the_defaults_of_the_model():
    job = catalog.get_job("moe-eplb")
    schema = lab_schema(job, "parameters")
    posted: dict[str, str] = {}
    for group in build(schema, at="/params", values={}):
        for field in group.fields:
            if field.control != "switch":
                posted[field.pointer] = field.value
            elif field.checked:
                posted[field.pointer] = "on"
    assert job.params.model_validate(parse(schema, at="/params", data=posted)) == job.params()


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", "integer", 7),
        (" -7 ", "integer", -7),
        ("7.5", "integer", "7.5"),
        ("", "integer", ""),
        ("7.5", "number", 7.5),
        ("x", "number", "x"),
        ("x", "string", "x"),
    ],
)
def test_posted_text_becomes_a_value_or_stays_for_the_model_to_refuse(text, kind, value):
    schema = {"properties": {"a": {"type": kind}}}
    assert parse(schema, at="/p", data={"/p/a": text}) == {"a": value}
