import numpy as np
import pytest

from simworkers.moe.traffic_params import DOMAINS
from simworkers.rng import Stream
from simworkers.text import BUCKETS, draw_traffic, load_library, tokenize

PINNED_TOKENS = [353, 6871, 1911, 7747, 878, 5673, 6113, 5695]


def test_every_corpus_has_at_least_four_thousand_tokens():
    assert load_library(DOMAINS).lengths.min() >= 4000


def test_tokens_do_not_depend_on_the_process():
    assert tokenize("def add(a, b):").tolist() == PINNED_TOKENS


def test_pieces_lose_no_character_that_is_not_white_space():
    from simworkers.text import _PIECE

    text = "Größe_1: naïve ∑ 12345 – «ok»\n\tend"
    assert "".join(_PIECE.findall(text)) == text


def test_token_ids_fill_the_range_without_leaving_it():
    tokens = load_library(DOMAINS).tokens
    assert tokens.min() >= 0
    assert tokens.max() < BUCKETS


def test_the_token_before_the_first_is_the_last_of_the_same_ring():
    library = load_library(DOMAINS)
    previous = library.previous(1)
    for start, length in zip(library.starts, library.lengths, strict=True):
        assert previous[start] == library.tokens[start + length - 1]


def test_a_step_has_exactly_its_tokens_even_where_the_last_stretch_is_cut():
    traffic = draw_traffic(load_library(DOMAINS), (1,) * 6, tokens=1000, chunk=300, stream=Stream(0))
    assert traffic.positions.shape == (1000,)


def test_a_domain_without_weight_never_appears():
    library = load_library(DOMAINS)
    traffic = draw_traffic(library, (0, 5, 0, 0, 0, 0), tokens=20_000, chunk=64, stream=Stream(3))
    start, length = library.starts[1], library.lengths[1]
    assert ((traffic.positions >= start) & (traffic.positions < start + length)).all()


def test_domains_appear_by_their_weights():
    library = load_library(DOMAINS)
    traffic = draw_traffic(library, (1, 3, 0, 0, 0, 0), tokens=40_000, chunk=1, stream=Stream(3))
    share = (traffic.positions >= library.starts[1]).mean()
    assert share == pytest.approx(0.75, abs=0.01)


def test_a_stretch_that_passes_the_joint_goes_on_at_the_start_and_counts_as_a_seam():
    library = load_library(DOMAINS)
    length = int(library.lengths[0])
    traffic = draw_traffic(library, (1, 0, 0, 0, 0, 0), tokens=length, chunk=length, stream=Stream(1))
    assert traffic.seams == 1
    assert np.unique(traffic.positions).size == length
