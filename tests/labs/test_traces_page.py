"""The page of recorded traces without script, and the choice of a trace in the lab's form."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from labs.models import Run, Trace, TraceFile
from labs.preparation import prepare_attempt
from labs.services import open_attempt, submit_run
from labs.traces import give_up, offer_trace
from labs.views.tasks import drawn_scenario
from labs.views.traces import size_text
from tests.labs.conftest import make_learner
from tests.labs.trace_files import SUMMARY, check_trace, held, ready, session

URL = "/labs/traces/"


@pytest.fixture
def page(client: Any, learner: Any) -> Any:
    client.force_login(learner)
    return client


def hand_in(page: Any, data: bytes, **values: Any) -> Any:
    return page.post(URL, {"file": SimpleUploadedFile("mine.jsonl", data), **values}, follow=True)


@pytest.mark.parametrize(
    ("count_bytes", "told"),
    [
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (2**20 - 513, "1023 KiB"),
        (2**20 - 512, "1 MiB"),
        (3 * 2**19, "1.5 MiB"),
    ],
)
def test_a_size_is_told_in_the_unit_of_which_it_has_at_least_one(count_bytes, told):
    assert size_text(count_bytes) == told


def text_of(answer: Any) -> str:
    return " ".join(answer.content.decode().split())


def test_a_file_is_handed_in_checked_and_deleted_by_plain_forms(page):
    assert "mine.jsonl: handed in; a worker checks it now." in text_of(
        hand_in(page, session() + b"nonsense\n")
    )
    trace = Trace.objects.get()
    assert "Being checked" in text_of(page.get(URL))
    check_trace(trace.file_id)
    shown = text_of(page.get(URL))
    assert "<dt>Requests</dt><dd>2</dd>" in shown
    assert "Lines refused: 1, repairs: 0" in shown
    assert "Line 2: is not JSON" in shown
    gone = page.post(f"{URL}{trace.public_id}/delete/", follow=True)
    assert "mine.jsonl was deleted." in text_of(gone)
    assert "You have handed in none." in text_of(gone)


def test_tokens_a_block_are_shown_and_several_sizes_are_warned_of(page):
    hand_in(page, session())
    hand_in(page, session() + session("b").replace(b'"block_size": 4', b'"block_size": 5'))
    for trace in Trace.objects.all():
        check_trace(trace.file_id)
    shown = text_of(page.get(URL))
    assert "<dt>Tokens a block</dt><dd>4</dd>" in shown
    assert "<dt>Tokens a block</dt><dd>4 and 5</dd>" in shown
    assert shown.count("one cache has blocks of one size") == 1


def test_of_very_many_block_sizes_a_few_are_kept_and_shown(page):
    line = session().replace(b'"block_size": 4', b'"block_size": %d')
    line = line.replace(b"[1, 2, 3]", b"[1]").replace(b"[1, 2]", b"[1]")
    hand_in(page, b"".join(line % size for size in range(12, 1212)))
    check_trace(Trace.objects.get().file_id)
    summary = TraceFile.objects.get().summary
    assert summary is not None
    assert (len(summary["block_sizes"]), summary["block_sizes_left_out"]) == (20, 1180)
    assert "<dt>Tokens a block</dt><dd>12, 13, 14 and more, 1,200 sizes</dd>" in text_of(page.get(URL))


def test_rows_without_sessions_are_said_to_have_none(page):
    row = b'{"timestamp": 0, "input_length": 8, "output_length": 1, "hash_ids": [1]}\n'
    hand_in(page, row * 3)
    check_trace(Trace.objects.get().file_id)
    shown = text_of(page.get(URL))
    assert "<dt>Sessions</dt><dd>none</dd><" in shown.replace(" <", "<")
    assert "<dt>Requests</dt><dd>3</dd>" in shown


def test_the_page_says_what_a_line_holds(page):
    shown = text_of(page.get(URL))
    assert all(f"<code>{name}</code>" in shown for name in ("block_size", "hash_ids", "timestamp"))
    assert "each row is one of its own, and a lab sends it at its recorded time" in shown


def test_a_name_of_ones_own_stands_for_the_files_name(page):
    hand_in(page, session(), name="  Monday ")
    assert Trace.objects.get().name == "Monday"


def test_a_file_that_was_checked_before_is_ready(page, offering):
    ready(make_learner("eve", offering), name="eves")
    shown = text_of(hand_in(page, session()))
    assert "mine.jsonl: ready; it was checked before." in shown
    assert "eves" not in shown


@pytest.mark.parametrize(("data", "said"), [(b"", "is an empty file"), (None, "choose a file")])
def test_what_is_no_file_is_refused_beside_its_field(page, data, said):
    values = {} if data is None else {"file": SimpleUploadedFile("x", data)}
    answer = page.post(URL, {**values, "name": "kept"})
    assert answer.status_code == 400
    assert f'id="trace-file-error">{said}</p>' in text_of(answer)
    assert 'value="kept"' in text_of(answer)


def test_a_file_that_is_too_large_and_one_too_many_are_refused(page, settings):
    settings.TRACE_LIMIT_BYTES = 300
    assert hand_in(page, b"x" * 301).status_code == 413
    settings.TRACES_PER_LEARNER = 0
    answer = hand_in(page, session())
    assert (answer.status_code, Trace.objects.count()) == (403, 0)
    assert "delete one first" in text_of(answer)


def test_a_file_that_is_held_is_no_refusal_where_there_is_no_room_for_another(page, settings):
    hand_in(page, session())
    settings.TRACES_PER_LEARNER = 1
    assert hand_in(page, session()).status_code == 200
    assert hand_in(page, session("b")).status_code == 403


def test_a_page_draws_on_the_same_limit_as_the_api(page, settings):
    settings.THROTTLE_RATES = {**settings.THROTTLE_RATES, "submission": (1, 60)}
    assert hand_in(page, session()).status_code == 200
    assert hand_in(page, session("b")).status_code == 429


def test_somebody_elses_trace_is_neither_shown_nor_deleted(page, offering):
    hers = held(make_learner("eve", offering), name="eves.jsonl")
    assert "eves.jsonl" not in text_of(page.get(URL))
    assert page.post(f"{URL}{hers.public_id}/delete/").status_code == 404


def test_an_offered_trace_is_shown_and_not_deleted(page, offering):
    offered = offer_trace(file=ready(make_learner("eve", offering)).file, name="for all")
    shown = text_of(page.get(URL))
    assert "Offered to everyone" in shown and "for all" in shown
    assert page.post(f"{URL}{offered.public_id}/delete/").status_code == 404


def options(answer: Any) -> list[tuple[str, str]]:
    (field,) = [
        field for group in answer.context["groups"] for field in group.fields if field.name == "trace"
    ]
    assert field.control == "trace"
    return [(choice.value, choice.text) for choice in field.choices]


def test_the_card_of_a_checked_trace_leads_to_the_labs_form_with_it_chosen(page, learner, traced):
    held(learner, session("unchecked"), "unchecked")
    trace = ready(learner)
    link = f"/labs/{traced.slug}/?trace={trace.file.digest}"
    shown = text_of(page.get(URL))
    assert shown.count(f'href="{link}#parameters"') == 1
    assert shown.count(f"?trace={trace.file.digest}") == shown.count(
        "?trace="
    )  # of no trace that is unchecked
    assert f'<option value="{trace.file.digest}" selected>mine.jsonl</option>' in text_of(page.get(link))
    assert "selected>Synthetic<" in text_of(page.get(f"/labs/{traced.slug}/?trace=nonsense"))


def test_the_form_of_a_lab_offers_the_traces_that_one_may_use(page, learner, traced, offering):
    mine = ready(learner, session("mine"), "mine")
    held(learner, session("unchecked"), "unchecked")
    eve = make_learner("eve", offering)
    ready(eve, session("hers"), "hers")
    offered = offer_trace(file=ready(eve, session("all")).file, name="for all")
    traced.default_trace = offered
    traced.save()
    shown = options(page.get(f"/labs/{traced.slug}/"))
    assert shown[:2] == [("synthetic", "Synthetic"), ("default", "Default: for all")]
    assert set(shown[2:]) == {(mine.file.digest, "mine"), (offered.file.digest, "for all (offered)")}


def test_a_run_is_submitted_with_a_trace_and_shows_its_name(page, learner, traced):
    mine = ready(learner, name="agents on Monday")
    sent = page.post(f"/labs/{traced.slug}/", {"/params/trace": mine.file.digest, "/seed": "0"})
    run = Run.objects.get()
    assert (sent.status_code, run.params["trace"]) == (302, mine.file.digest)
    again = page.get(f"/labs/{traced.slug}/?from={run.public_id}")
    assert "selected>agents on Monday</option>" in text_of(again)


def test_a_load_search_over_rows_without_sessions_is_refused_beside_its_switch(page, learner, lab):
    rows = ready(learner).file
    TraceFile.objects.filter(pk=rows.pk).update(summary=SUMMARY | {"has_sessions": False})
    sent = {"/params/trace": rows.digest, "/params/search_load": "on"}
    answer = page.post("/labs/agent-routing/", sent)
    assert (answer.status_code, Run.objects.count()) == (400, 0)
    assert 'id="params-search_load-error">rows without sessions come at their own times' in text_of(answer)


def test_a_trace_that_is_gone_is_said_to_be_gone_in_the_form_of_its_run(page, learner, traced):
    mine = ready(learner)
    run = submit_run(learner=learner, lab=traced, params={"trace": mine.file.digest})
    give_up(trace=mine)
    assert TraceFile.objects.count() == 1  # the queued run is to read it
    shown = page.get(f"/labs/{traced.slug}/?from={run.public_id}")
    assert (mine.file.digest, f"A trace that is no longer here ({mine.file.digest[:12]}…)") in options(shown)
    refused = page.post(f"/labs/{traced.slug}/", {"/params/trace": mine.file.digest})
    assert refused.status_code == 400
    assert "is none of your traces" in text_of(refused)


def test_an_attempt_shows_the_name_of_the_trace_that_it_was_drawn_from(
    learner, task, traced, offering, simulation
):
    offered = ready(None, name="Agents of all")
    traced.default_trace = offered
    traced.save()
    attempt, _ = open_attempt(learner=learner, task=task, offering=offering)
    simulation({"params": {"trace": "default"}, "visible": {"trace": offered.file.digest}, "seed": 1})
    prepare_attempt(attempt.pk)
    attempt.refresh_from_db()
    assert [(fact.label, fact.value) for fact in drawn_scenario(attempt).facts] == [
        ("Trace", "Agents of all")
    ]
