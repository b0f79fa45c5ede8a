import numpy as np
import pytest

from simworkers.rng import Stream, equal_multinomial

PINNED_WORDS = [13341310369839942385, 5202778764899185111, 1814671304121495560]


def test_streams_of_one_name_agree_and_of_two_names_differ():
    assert (Stream(1, "a").words(8) == Stream(1, "a").words(8)).all()
    assert (Stream(1, "a").words(8) != Stream(1, "b").words(8)).any()
    assert (Stream(1, "a").words(8) != Stream(2, "a").words(8)).any()


def test_the_first_words_of_a_stream_are_fixed_for_all_machines():
    assert Stream(7, "pinned", 3).words(3).tolist() == PINNED_WORDS


def test_integers_stay_below_their_limit_and_reach_every_value():
    drawn = Stream(0, "dice").integers(6, 6000)
    assert np.bincount(drawn, minlength=6).min() > 850
    assert drawn.max() == 5


def test_integers_refuse_a_limit_below_one():
    with pytest.raises(ValueError, match="below must lie"):
        Stream(0).integers(0, 1)


def test_a_permutation_holds_every_number_once():
    assert sorted(Stream(0, "p").permutation(100).tolist()) == list(range(100))


def test_halves_count_fair_bits_and_never_more_than_there_are():
    counts = np.array([0, 1, 63, 64, 65, 1000])
    drawn = np.stack([Stream(seed, "halves").halves(counts) for seed in range(400)])
    assert (drawn <= counts).all()
    assert (drawn >= 0).all()
    # A binomial of n fair bits has mean n/2 and deviation √n/2; 400 draws put the mean within 5 standard errors.
    assert (np.abs(drawn.mean(axis=0) - counts / 2) <= 5 * np.sqrt(counts) / 2 / 20 + 1e-9).all()


def test_an_equal_multinomial_shares_out_every_copy():
    assert (equal_multinomial(Stream(0, "m"), 1234, 8, 50).sum(axis=1) == 1234).all()


def test_cells_that_are_no_power_of_two_are_refused():
    with pytest.raises(ValueError, match="power of two"):
        equal_multinomial(Stream(0), 10, 6, 1)


@pytest.mark.parametrize(("gpus", "published"), [(32, 1.26), (4, 1.05)])
def test_the_sampling_floor_reaches_its_published_values(gpus, published):
    """Eight tokens an expert over 256 experts."""
    draws = equal_multinomial(Stream(0, "floor"), 8 * 256, gpus, 1000)
    assert (draws.max(axis=1) / draws.mean(axis=1)).mean() == pytest.approx(published, abs=0.012)
