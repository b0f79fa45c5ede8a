"""What forms carry beside plain values: artefacts as JSON, long texts typed or from a file; and the queue's words."""

import dataclasses
import json
import re
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from labs.api.schemas import lab_schema
from labs.models import Run, TaskAttempt
from labs.page_forms import build, error_at, parse, read_files
from labs.presentation import queue_text, scenario
from labs.services import submit_run
from labs.validation import check_params
from labs.views.placements import placement_scene, start_of
from quiz.models import Learner
from simworkers import catalog
from simworkers.moe.handed_in import PlacementArtefact
from tests.labs.conftest import PREDICTION
from tests.labs.test_pages import html_of, page_of

LIMIT = 256 * 1024
ATTEMPT_FORM = {"/prediction/straggler_gpu": "1", "/prediction/max_over_mean": "1.5"}


@pytest.fixture
def browser(learner: Learner) -> Client:
    client = Client()
    client.force_login(learner)
    return client


# Artefacts ----------------------------------------------------------------------------------------


@pytest.fixture
def placing(attempt: TaskAttempt, monkeypatch: pytest.MonkeyPatch) -> TaskAttempt:
    """An attempt at a task that asks for a placement: 8 experts in 12 slots on 4 GPUs in 2 nodes."""
    job = attempt.task.lab.job
    kind = dataclasses.replace(attempt.task.task_kind, artefact=PlacementArtefact, open_parameters=())
    monkeypatch.setitem(job.tasks, kind.name, kind)
    scene = {"num_nodes": 2, "num_layers": 2, "eplb": True, "redundant_slots_per_gpu": 1}
    attempt.instance = {"params": check_params(job, scene), "seed": 11}
    attempt.visible = {"observed_load": [[8, 1, 1, 1, 1, 1, 1, 1]] * 2}
    attempt.save()
    return attempt


def hand_in(browser: Client, attempt: TaskAttempt, placement: str) -> Any:
    return browser.post(page_of(attempt), ATTEMPT_FORM | {"/artefact/placement": placement})


def test_a_placement_starts_contiguous_and_that_is_one_which_the_lab_takes(placing):
    scene = placement_scene(placing)
    assert scene is not None
    start = start_of(scene)
    assert start["placement"][0] == [0, 1, 0, 2, 3, 2, 4, 5, 4, 6, 7, 6]
    assert PlacementArtefact.model_validate(start, context={"params": placing.instance["params"]})


def test_the_attempt_page_holds_the_scene_for_the_editor_and_json_for_all_others(browser, placing):
    html = html_of(browser, placing)
    found = re.search(r'<script id="placement-scene" type="application/json">(.*?)</script>', html)
    assert found is not None
    assert json.loads(found[1])["slots"] == 12
    assert json.loads(found[1])["groups_stay_in_node"] is True
    assert re.search(r'<textarea[^>]*name="/artefact/placement"[^>]*>\s*\[\s*\[0, 1, 0, 2', html)
    assert "2. Hand in" in html


def test_a_handed_in_placement_without_script_becomes_the_artefact_of_a_run(browser, placing):
    placement = [[0, 1, 1, 2, 3, 2, 4, 5, 4, 6, 7, 6]] * 2
    reply = hand_in(browser, placing, json.dumps(placement))
    run = Run.objects.get()
    assert reply["Location"] == page_of(run)
    assert run.artefact == {"placement": placement}


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ("[[0, 1", "valid array"),
        ("[" * 900 + "]" * 900, "valid array"),
        ("", "required"),
        ([[0, 1, 0, 2, 3, 2, 4, 5, 4, 6, 7, 99]] * 2, "[0][11]: there is no expert 99"),
        ([[0, 1, 0, 2, 3, 2, 4, 5, 4, 6, 6, 6]] * 2, "[1]: layer 1 has no slot for expert 7"),
    ],
)
def test_a_refused_placement_is_named_at_its_place_and_kept_as_typed(browser, placing, placement, words):
    typed = placement if isinstance(placement, str) else json.dumps(placement)
    reply = hand_in(browser, placing, typed)
    html = reply.content.decode()
    error = re.search(r'id="artefact-placement-error">([^<]*)<', html)
    assert reply.status_code == 400
    assert error is not None and words in error[1]
    assert '<a href="#artefact-placement">Placement</a>' in html
    assert not Run.objects.exists()


def test_a_task_that_asks_for_no_artefact_shows_none(browser, attempt):
    assert "Hand in" not in html_of(browser, attempt)


def test_a_fault_inside_a_value_is_said_at_its_field_with_its_place():
    errors = {"/a/p/0/3": "is no expert", "/a/p": "is short", "/a/pp": "is another"}
    assert error_at("/a/p", errors) == "[0][3]: is no expert; is short"


def test_a_value_that_may_be_null_is_a_field_of_its_other_type():
    schema = {"properties": {"m": {"anyOf": [{"type": "array"}, {"type": "null"}], "default": None}}}
    (group,) = build(schema, at="/p", values={})
    assert (group.fields[0].control, group.fields[0].value) == ("json", "")
    assert parse(schema, at="/p", data={"/p/m": " "}) == {}
    assert parse(schema, at="/p", data={"/p/m": "[[1]]"}) == {"m": [[1]]}


# Long texts ---------------------------------------------------------------------------------------


def own_text(browser: Client, **data: Any) -> Any:
    form = {"/params/own_text_weight": "5", "/params/num_steps": "3"}
    return browser.post(
        "/labs/moe-eplb/", form | {f"/params/own_text{name}": one for name, one in data.items()}
    )


def upload(data: bytes, name: str = "mine.txt") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, data, "text/plain")


def error_of(html: str) -> str:
    found = re.search(r'id="params-own_text-error">([^<]*)<', html)
    assert found is not None
    return found[1]


def test_the_lab_page_has_a_large_field_and_a_file_chooser_for_a_long_text(browser, lab):
    html = browser.get("/labs/moe-eplb/").content.decode()
    assert '<textarea id="params-own_text"' in html
    assert 'type="file" id="params-own_text-file" name="/params/own_text:file"' in html
    assert f'data-limit="{LIMIT}"' in html
    assert '<form method="post" enctype="multipart/form-data">' in html


def test_a_text_from_a_file_wins_over_the_typed_one(browser, lab):
    own_text(browser, **{"": "typed", ":file": upload("Grüße, 你好\r\n".encode())})
    assert Run.objects.get().params["own_text"] == "Grüße, 你好\n"


def test_a_byte_order_mark_is_no_part_of_the_text(browser, lab):
    own_text(browser, **{":file": upload("\ufeffhello".encode())})
    assert Run.objects.get().params["own_text"] == "hello"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"x" * (LIMIT + 1), "mine.txt has 262,145 bytes; at most 262,144"),
        (b"\x89PNG\xff\xfe", "not text in UTF-8"),
        (b"abc\x00def", "binary"),
        (b"abc\x07def", "control character"),
    ],
)
def test_a_file_that_is_no_text_or_too_large_is_refused_beside_the_field(browser, lab, data, words):
    reply = own_text(browser, **{"": "kept", ":file": upload(data)})
    assert reply.status_code == 400
    assert words in error_of(reply.content.decode())
    assert not Run.objects.exists()


def test_a_refused_file_leaves_what_was_typed(browser, lab):
    html = own_text(browser, **{"": "kept", ":file": upload(b"\xff")}).content.decode()
    assert re.search(r'<textarea id="params-own_text"[^>]*>\nkept</textarea>', html)


def test_a_text_that_begins_with_a_line_break_keeps_it_in_the_form(browser, lab):
    html = own_text(browser, **{"": "\r\nkept", "_weight": "101"}).content.decode()
    assert re.search(r'<textarea id="params-own_text"[^>]*>\n\nkept</textarea>', html)


def test_a_long_text_and_a_table_are_named_by_their_size_on_the_page_of_a_run(browser, lab, learner):
    run = submit_run(learner=learner, lab=lab, params={"own_text": "x" * 5000, "own_text_weight": 1})
    Run.objects.filter(pk=run.pk).update(
        state="graded",
        report={"metrics": {}, "invariants": {}},
        params=run.params | {"placement": [[1, 2, 3]]},
    )
    html = html_of(browser, run)
    assert "a text of 5,000 characters" in html
    assert "1 × 3 numbers" in html


def test_own_text_stands_in_no_task_that_does_not_open_it(browser, attempt):
    assert "own_text" in lab_schema(catalog.get_job("moe-eplb"), "parameters")["properties"]
    assert "own_text" not in html_of(browser, attempt)


# The queue ----------------------------------------------------------------------------------------


def test_a_queued_run_says_its_place_without_script(browser, attempt, lab, learner, worker):
    for seed in range(2):
        submit_run(learner=learner, lab=lab, params={}, seed=seed)
    run = submit_run(learner=learner, lab=lab, params={}, prediction=PREDICTION, task_attempt=attempt)
    assert "2 runs before yours; a moment." in html_of(browser, run)


@pytest.mark.parametrize(
    ("before", "wait_s", "problem", "text"),
    [
        (0, 0.2, "", "Yours is the next run; a moment."),
        (1, 8.4, "", "1 run before yours; about 8 s."),
        (1200, 600.0, "", "1,200 runs before yours; about 10 min."),
        (0, None, "No worker is alive.", "Yours is the next run. No worker is alive."),
    ],
)
def test_a_place_in_the_queue_is_said_in_words(before, wait_s, problem, text):
    assert queue_text(before, wait_s, problem) == text


# Pictures -----------------------------------------------------------------------------------------

PICTURE = {"properties": {"p": {"type": "string", "format": "image", "maxBytes": 10, "default": ""}}}


def test_a_picture_is_a_field_that_takes_a_file():
    (group,) = build(PICTURE, at="/params", values={})
    assert (group.fields[0].control, group.fields[0].limit_bytes) == ("picture", 10)


def test_without_script_a_picture_is_posted_as_a_file(browser, lab):
    html = browser.get("/labs/multimodal-cache/").content.decode()
    assert 'type="file" id="params-own_image-file" name="/params/own_image:file"' in html
    assert '<form method="post" enctype="multipart/form-data">' in html


def test_a_pictures_file_becomes_base64():
    files = {"/params/p:file": SimpleUploadedFile("a.png", b"\x89PNG\r\n")}
    assert read_files(PICTURE, at="/params", files=files) == ({"p": "iVBORw0K"}, [])


def test_a_pictures_file_that_is_too_large_is_refused_at_its_field():
    files = {"/params/p:file": SimpleUploadedFile("a.png", b"x" * 11)}
    assert read_files(PICTURE, at="/params", files=files) == (
        {},
        [("/params/p", "a.png has 11 bytes; at most 10")],
    )


# Choices and records ------------------------------------------------------------------------------


def test_a_choice_of_numbers_shows_their_names():
    part = {"type": "integer", "enum": [1, 2], "enumNames": ["one cause", "another"]}
    (group,) = build({"properties": {"cause": part}}, at="/prediction", values={"cause": 2})
    choices = [(choice.value, choice.text, choice.selected) for choice in group.fields[0].choices]
    assert choices == [("1", "one cause", False), ("2", "another", True)]


def test_a_choice_that_has_to_be_made_is_not_made_by_default():
    schema = {"properties": {"cause": {"type": "integer", "enum": [1, 2]}}, "required": ["cause"]}
    (open_field,) = build(schema, at="/p", values={})[0].fields
    (made,) = build(schema, at="/p", values={"cause": 1})[0].fields
    assert (open_field.is_unanswered, made.is_unanswered) == (True, False)
    assert parse(schema, at="/p", data={"/p/cause": ""}) == {}


def test_rows_under_a_head_are_shown_as_a_table():
    log = [["user", "file", "ttft_us"], [0, "de6cf9d8", 47373]]
    (table,) = scenario({"turns": log}, {}).records
    assert (table.columns, table.rows) == (log[0], [["0", "de6cf9d8", "47.37 ms"]])
