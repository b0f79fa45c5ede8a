"""A learner's own text as traffic."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

from simworkers.moe.gate import library_of, token_features
from simworkers.moe.own_text import MAX_OWN_TEXT_BYTES
from simworkers.moe.params import MoeParams
from simworkers.moe.simulate import simulate
from simworkers.moe.traffic_params import DOMAINS, OWN_TEXT
from simworkers.text import build_library, load_library, tokenize

SMALL = {"tokens_per_step": 256, "chunk_tokens": 16, "num_layers": 1, "warmup_steps": 1, "num_steps": 2}
ALONE = {f"{domain}_weight": 0 for domain in DOMAINS} | {"skew_percent": 0, "own_text_weight": 1}
TEXT = "Ein Text, a text, un texte: 1 + 1 = 2.\n"


def run(**values):
    return simulate(MoeParams(**SMALL | values), 0, lambda done, total: None)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"own_text": ""}, "own_text_weight is 5, but there is no text"),
        ({"own_text": " \n\t "}, "own_text_weight is 5, but there is no text"),
        ({}, "own_text_weight is 5, but there is no text"),
        ({"own_text": "ab\x00c"}, "character 2 is the control character U+0000"),
        ({"own_text": "\x7fELF\x01"}, "character 0 is the control character U+007F"),
        ({"own_text": b"\x89PNG\r\n".decode("latin-1")}, "character 0 is the control character U+0089"),
        ({"own_text": "a\ud800"}, "as a unicode string"),
        ({"own_text": "ä" * (MAX_OWN_TEXT_BYTES // 2 + 1)}, "has 262,146 bytes as UTF-8; at most 262,144"),
        ({"own_text": "a" * (MAX_OWN_TEXT_BYTES + 1)}, "at most 262144 characters"),
        ({"own_text": 7}, "valid string"),
    ],
)
def test_what_is_no_text_is_refused_at_its_field(values, sentence):
    with pytest.raises(ValidationError) as caught:
        MoeParams(own_text_weight=5, **values)
    assert [error["loc"] for error in caught.value.errors()] == [("own_text",)]
    assert sentence in caught.value.errors()[0]["msg"]


def test_binary_is_refused_even_without_weight():
    with pytest.raises(ValidationError, match="control character"):
        MoeParams(own_text="\x00")


def test_the_largest_text_is_taken():
    assert MoeParams(own_text_weight=1, own_text="ä" * (MAX_OWN_TEXT_BYTES // 2)).own_text_weight == 1


def test_the_schema_tells_a_form_that_this_is_a_text_to_paste_or_upload():
    field = MoeParams.model_json_schema()["properties"]["own_text"]
    assert (field["format"], field["contentMediaType"]) == ("textarea", "text/plain")
    assert field["maxLength"] == field["maxBytes"] == 256 * 1024


def test_it_is_a_ring_behind_the_corpora():
    library = library_of(MoeParams(own_text_weight=1, own_text=TEXT))
    corpora = load_library(DOMAINS)
    assert library.domains == (*DOMAINS, OWN_TEXT)
    assert library.lengths[-1] == len(tokenize(TEXT))
    assert library.tokens[library.starts[-1] :].tolist() == tokenize(TEXT).tolist()
    assert library.tokens[: len(corpora.tokens)].tolist() == corpora.tokens.tolist()


def test_features_of_some_positions_are_those_of_all():
    library = library_of(MoeParams(own_text_weight=1, own_text=TEXT))
    rows = np.array([0, 17, library.starts[-1], len(library.tokens) - 1])
    assert np.array_equal(token_features(library, rows), token_features(library)[rows])


def test_a_text_of_one_token_is_a_ring_of_one():
    metrics = run(**ALONE, own_text="x").metrics
    load = np.array(metrics["expert_load"])
    assert (load > 0).sum() == 2  # one position goes to its top-2 experts, again and again
    assert load.sum() == metrics["routed_copies"]


def test_seams_count_how_often_the_text_begins_again():
    tokens = len(tokenize(TEXT))
    assert tokens < 3 * SMALL["chunk_tokens"]
    assert run(**ALONE, own_text=TEXT).provenance["corpus_seams"] > 0


def test_equal_texts_give_equal_reports_and_other_texts_other_traffic():
    values = {"own_text_weight": 50, "own_text": TEXT}
    first, second = run(**values), run(**values)
    assert first.model_dump(exclude={"provenance"}) == second.model_dump(exclude={"provenance"})
    other = run(**values | {"own_text": "void main(){}"})
    assert other.metrics["expert_load"] != first.metrics["expert_load"]


def test_without_weight_a_text_changes_nothing():
    assert run(own_text=TEXT).metrics == run().metrics


def test_a_corpus_handed_in_as_own_text_loads_the_experts_as_the_corpus_does():
    """The same ring under another name: one domain alone, so that both draw the same stretches."""
    corpus = "".join(chr(0x4E00 + i % 500) + " " for i in range(200))
    mixed = run(**ALONE, own_text=corpus).metrics
    assert (
        mixed["expert_load"] == run(**ALONE | {"own_text_weight": 9}, own_text=corpus).metrics["expert_load"]
    )


def test_a_text_without_tokens_is_refused_by_its_name():
    with pytest.raises(ValueError, match="own_text: there is no token"):
        build_library({OWN_TEXT: ""})


def test_the_shell_takes_it_as_a_value_and_from_a_file(tmp_path, capsys):
    from simworkers.__main__ import main

    small = [part for name, value in (SMALL | ALONE).items() for part in ("--set", f"{name}={value}")]
    assert main(["run", "moe-eplb", *small, "--set", f"own_text={TEXT}"]) == 0
    pasted = json.loads(capsys.readouterr().out)
    file = tmp_path / "params.json"
    file.write_text(json.dumps({"own_text": TEXT}))
    assert main(["run", "moe-eplb", "--params", str(file), *small]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == pasted["metrics"]
    assert main(["run", "moe-eplb", *small]) == 2
    assert capsys.readouterr().err == "own_text: own_text_weight is 1, but there is no text\n"
