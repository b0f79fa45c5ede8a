"""Forms that schemas become, and what is posted with them."""

import pytest

from labs.api.schemas import lab_schema
from labs.labels import label
from labs.page_forms import build, fields_of, fold, parse
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


def folded(lab: str, values: dict | None = None, errors: dict | None = None):
    job = catalog.get_job(lab)
    groups = build(lab_schema(job, "parameters"), at="/params", values=values or {}, errors=errors)
    return fold(groups, essentials=job.essentials, internals=job.internals)


@pytest.mark.parametrize("name", catalog.job_names())
def test_a_form_begins_with_about_a_dozen_fields_and_folds_the_rest_without_losing_one(name):
    schema = lab_schema(catalog.get_job(name), "parameters")
    first, *others = folded(name)
    assert not first.folds and 10 <= len(first.fields) <= 14
    assert {field.name for field in first.fields} == set(catalog.get_job(name).essentials)
    assert all(group.folds and not group.is_open for group in others)
    assert sorted(field.name for field in fields_of([first, *others])) == sorted(schema["properties"])


def test_what_tasks_set_stands_last():
    last = folded("agent-routing")[-1]
    assert last.title == "Set by tasks"
    assert {"scored_as", "probes_rule", "gpu_budget"} <= {field.name for field in last.fields}


def test_a_group_is_open_where_a_value_is_changed_or_refused():
    def opened(**given):
        return [group.title for group in folded("agent-routing", **given) if group.folds and group.is_open]

    assert opened(values={"policy": "sticky", "saturated_queue": 4}) == []
    assert opened(values={"saturated_queue": 5}) == ["Router"]
    assert opened(errors={"/params/pp_wins/link": "is missing"}) == ["Set by tasks"]


def test_without_essential_fields_nothing_folds():
    groups = build(lab_schema(catalog.get_job("moe-eplb"), "parameters"), at="/params", values={})
    assert fold(groups, essentials=(), internals=()) == groups
