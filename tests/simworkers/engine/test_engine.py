"""The engine against a naive one: the same tokens, however they were cached, cut, mixed or preempted."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simworkers.engine.kv_cache import CacheInUse
from simworkers.engine.model import ModelWeights
from simworkers.engine.request import RefusedRequest, Sampling, State
from tests.simworkers.engine import naive
from tests.simworkers.engine.scenes import (
    PLACEHOLDER,
    SHAPE,
    Asked,
    encoder,
    engine,
    image,
    model,
    parts_of,
    serve,
    with_images,
    words,
)

TOLERANCE = 1e-9  # of log-probabilities in float64


def reference(asked: Asked) -> tuple[list[int], list[float]]:
    return naive.generate(model(), encoder(), asked.prompt, asked.sampling, asked.images)


samplings = st.builds(
    Sampling,
    max_tokens=st.integers(1, 6),
    temperature=st.sampled_from([0.0, 0.0, 0.7, 1.5]),
    seed=st.integers(0, 3),
    stop_tokens=st.sampled_from([frozenset(), frozenset(range(1, 20))]),
)
# Few different parts, so that prompts share prefixes and images.
parts = st.lists(
    st.one_of(st.integers(1, 3), st.integers(10, 13).map(lambda seed: words(seed, 1 + seed % 5))),
    min_size=1,
    max_size=5,
)
askings = st.builds(
    lambda parts, sampling, salt: with_images(*parts, sampling=sampling, salt=salt),
    parts,
    samplings,
    st.sampled_from([None, None, "tenant"]),
)
engines = st.fixed_dictionaries(
    {
        "num_blocks": st.integers(8, 30),
        "encoder_cache_embeddings": st.integers(4, 16),
        "encoder_budget": st.integers(4, 16),
        "token_budget": st.integers(1, 40),
        "max_running": st.integers(1, 4),
        "max_chunk": st.sampled_from([0, 3, 8]),
        "prefix_caching": st.booleans(),
        "encoder_caching": st.booleans(),
    }
)


@settings(max_examples=40, deadline=None)
@given(engines, st.lists(st.lists(askings, min_size=1, max_size=4), min_size=1, max_size=2))
def test_any_mix_of_requests_gives_the_tokens_of_the_naive_engine(config, waves):
    server = engine(**config)
    for wave in waves:
        served = serve(server, *wave)
        for asked, (tokens, logprobs) in zip(wave, served, strict=True):
            expected_tokens, expected_logprobs = reference(asked)
            assert tokens == expected_tokens
            assert logprobs == pytest.approx(expected_logprobs, abs=TOLERANCE)


@settings(max_examples=200, deadline=None)
@given(engines, st.lists(st.lists(askings, min_size=1, max_size=4), min_size=2, max_size=3))
def test_caches_on_and_off_give_the_same_tokens(config, waves):
    on = engine(**config | {"prefix_caching": True, "encoder_caching": True})
    off = engine(**config | {"prefix_caching": False, "encoder_caching": False})
    for wave in waves:
        assert [tokens for tokens, _ in serve(on, *wave)] == [tokens for tokens, _ in serve(off, *wave)]


@settings(max_examples=10, deadline=None)
@given(engines, st.lists(askings, min_size=1, max_size=4))
def test_row_by_row_even_float32_is_bit_equal_in_any_company(config, wave):
    alone = [serve(engine(torch.float32, arithmetic="per_row"), asked)[0] for asked in wave]
    assert serve(engine(torch.float32, arithmetic="per_row", **config), *wave) == alone


def test_row_by_row_gives_the_tokens_of_the_naive_engine():
    asked = with_images(words(1, 70), 2, words(3, 5), sampling=Sampling(max_tokens=8))
    tokens, _ = serve(engine(arithmetic="per_row"), asked)[0]
    assert tokens == reference(asked)[0]


def test_what_is_computed_as_a_batch_stays_near_what_is_computed_row_by_row():
    asked = Asked(words(1, 100), Sampling(max_tokens=8))
    batched = serve(engine(torch.float32), asked)[0][1]
    assert batched == pytest.approx(serve(engine(torch.float32, arithmetic="per_row"), asked)[0][1], abs=1e-4)


def test_an_image_decides_the_tokens_that_follow():
    seen = {tuple(serve(engine(), with_images(words(1, 3), name, words(2, 3)))[0][0]) for name in range(1, 6)}
    assert len(seen) > 1


def test_a_prompt_whose_every_block_is_cached_still_computes_its_last_token():
    server, asked = engine(), Asked(words(1, 8))
    first, second = serve(server, asked), serve(server, asked)
    assert second == first
    assert server.statistics.cached_tokens == 4  # of 8; the last block holds the token to sample from


def test_two_images_behind_the_same_placeholders_never_share_kv():
    server = engine()
    serve(server, with_images(1, words(1, 8)))
    asked = with_images(2, words(1, 8))
    assert serve(server, asked)[0][0] == reference(asked)[0]
    assert server.statistics.cached_tokens == 0


def test_the_same_image_one_token_later_shares_no_kv():
    server = engine()
    # Both prompts start with a block of placeholders and words that look alike by token ids alone.
    serve(server, Asked((PLACEHOLDER,) * 4 + words(1, 8), images=(image(1, 0),)))
    serve(server, Asked((PLACEHOLDER,) * 5 + words(1, 8), images=(image(1, 1),)))
    assert server.statistics.cached_tokens == 0


def test_another_salt_shares_nothing():
    server = engine()
    serve(server, Asked(words(1, 12), salt="a"))
    serve(server, Asked(words(1, 12), salt="b"))
    assert server.statistics.cached_tokens == 0
    serve(server, Asked(words(1, 12), salt="a"))
    assert server.statistics.cached_tokens == 8


def test_a_preempted_request_counts_its_cached_tokens_once():
    server = engine(num_blocks=8, token_budget=16)
    serve(server, Asked(words(1, 8)))
    serve(server, *(Asked(words(1, 8) + words(n, 4), Sampling(max_tokens=10)) for n in (5, 6)))
    assert server.statistics.preemptions > 0
    assert server.statistics.cached_tokens == 8 + 8
    assert server.statistics.requests == 3


def test_an_image_that_is_encoded_again_after_a_preemption_is_no_hit():
    server = engine(num_blocks=8, token_budget=16, encoder_caching=False)
    asked = [with_images(n, words(n, 8), sampling=Sampling(max_tokens=10)) for n in (1, 2)]
    serve(server, *asked)
    assert server.statistics.preemptions > 0
    assert (server.statistics.images, server.statistics.images_not_encoded) == (2, 0)


def test_an_image_seen_before_is_not_encoded_again():
    server = engine(prefix_caching=False)
    serve(server, with_images(1, words(1, 3)))
    server.add_request("again", *parts_of(with_images(words(2, 3), 1, words(3, 3))))
    assert sum(len(step.encoded) for step in server.run()) == 0
    assert server.statistics.images_not_encoded == 1


def test_an_image_that_the_prefix_cache_covers_needs_no_embeddings():
    server = engine(encoder_cache_embeddings=4)
    asked = with_images(1, words(1, 9))
    serve(server, asked)
    serve(server, with_images(2, words(2, 3)))  # pushes the embeddings out, not the KV
    server.add_request("again", *parts_of(asked))
    assert sum(len(step.encoded) for step in server.run()) == 0


def test_a_chunk_ends_just_before_an_image_that_exceeds_the_encoder_budget():
    server = engine(encoder_budget=6)
    server.add_request("r", *parts_of(with_images(words(1, 3), 1, words(2, 2), 2, words(3, 2))))
    assert [step.spans[0].count for step in server.run()[:2]] == [3 + 4 + 2, 4 + 2]


def test_a_request_whose_images_together_exceed_the_encoder_cache_is_served():
    asked = with_images(1, 2, 3, words(1, 2))
    assert serve(engine(encoder_cache_embeddings=4, encoder_budget=4), asked)[0][0] == reference(asked)[0]


def test_an_image_above_the_encoder_cache_is_refused_at_once():
    with pytest.raises(RefusedRequest, match=r"images: .* 4 embeddings; .* take 3"):
        serve(engine(encoder_cache_embeddings=3), with_images(1, words(1, 2)))


@pytest.mark.parametrize(
    ("field", "asked"),
    [
        ("prompt", Asked(())),
        ("prompt", Asked((1, SHAPE.vocabulary))),
        ("prompt", Asked(words(1, 300))),
        ("images", Asked(words(1, 3), images=(image(1, 0),))),
        ("images", Asked(words(1, 9), images=(image(1, 0), image(2, 3)))),
    ],
)
def test_what_can_never_be_served_is_refused_by_field_and_nothing_is_queued(field, asked):
    server = engine()
    with pytest.raises(RefusedRequest, match=f"^{field}: "):
        serve(server, asked)
    assert server.scheduler.is_idle and not server.requests


def test_an_aborted_request_gives_back_all_that_it_holds():
    server = engine()
    for n in range(3):
        server.add_request(f"r{n}", *parts_of(with_images(n, words(n, 20))))
    server.step()
    for n in range(3):
        server.abort(f"r{n}")
    server.check_integrity()
    assert server.pool.num_free == server.config.num_blocks
    server.reset_caches()


def test_aborting_one_leaves_the_tokens_of_the_others():
    server = engine(num_blocks=12)
    kept = Asked(words(1, 9), Sampling(max_tokens=8))
    request = server.add_request("kept", *parts_of(kept))
    server.add_request("gone", words(2, 9), Sampling(max_tokens=8))
    server.step()
    server.step()
    server.abort("gone")
    server.run()
    assert list(request.outputs) == reference(kept)[0]


def test_a_reset_is_refused_while_requests_run_and_changes_nothing():
    server = engine()
    serve(server, Asked(words(1, 12)))
    server.add_request("r", words(2, 12))
    server.step()
    cached = server.pool.num_cached
    with pytest.raises(CacheInUse):
        server.reset_caches()
    assert server.pool.num_cached == cached > 0


def test_a_reset_that_preempts_leaves_the_tokens_as_they_were():
    server, asked = engine(), with_images(words(1, 5), 1, words(2, 6), sampling=Sampling(max_tokens=6))
    request = server.add_request("r", *parts_of(asked))
    for _ in range(3):
        server.step()
    server.reset_caches(preempt=True)
    assert server.pool.num_cached == 0
    server.run()
    assert list(request.outputs) == reference(asked)[0]


def test_new_weights_empty_the_caches_and_stale_kv_survives_only_if_the_reset_is_left_out():
    other = ModelWeights.draw(SHAPE, 9, torch.float64)
    asked = Asked(words(1, 12))
    fresh = engine()
    fresh.load_weights(other)
    right = serve(fresh, asked)
    careful, careless = engine(), engine()
    for server, reset in ((careful, True), (careless, False)):
        serve(server, asked)
        server.load_weights(other, reset=reset)
    assert serve(careful, asked)[0][1] == pytest.approx(right[0][1], abs=TOLERANCE)
    assert serve(careless, asked)[0][1] != pytest.approx(right[0][1], abs=1e-3)


def test_with_the_weight_version_in_the_hash_old_kv_is_never_found_again():
    server, asked = engine(weight_version_in_hash=True), Asked(words(1, 12))
    serve(server, asked)
    server.load_weights(server.model.weights.updated(), reset=False)
    serve(server, asked)
    assert server.statistics.cached_tokens == 0


def test_a_block_begun_under_old_weights_is_not_found_under_new_ones():
    server = engine(weight_version_in_hash=True)
    prompt = words(1, 10)
    server.add_request("across", prompt, Sampling(max_tokens=8))
    server.step()
    server.step()
    server.load_weights(ModelWeights.draw(SHAPE, 9, torch.float64).updated(), reset=False)
    steps = server.run()
    outputs = tuple(steps[-1].outputs[0].request.tokens)
    server.add_request("new", outputs, Sampling(max_tokens=1))
    server.run()
    assert server.statistics.cached_tokens == 0


def test_a_step_says_what_keeps_the_next_request_out():
    server = engine(num_blocks=4)
    server.add_request("first", words(1, 8), Sampling(max_tokens=4))
    assert server.step().waits_for == "nothing"
    server.add_request("second", words(2, 10), Sampling(max_tokens=2))
    assert server.step().waits_for == "blocks"
    server = engine(max_running=1)
    server.add_request("first", words(1, 8), Sampling(max_tokens=4))
    server.add_request("second", words(2, 8), Sampling(max_tokens=2))
    assert server.step().waits_for == "budget"


def test_decoding_goes_on_while_a_long_prompt_is_read():
    server = engine(token_budget=8)
    server.add_request("chat", words(1, 4), Sampling(max_tokens=12))
    server.step()
    server.add_request("long", words(2, 60), Sampling(max_tokens=1))
    for _ in range(5):
        assert [output.request.id for output in server.step().outputs] == ["chat"]


def test_a_prompt_cut_into_chunks_gives_what_the_whole_one_gives():
    asked = with_images(words(1, 10), 1, words(2, 10), 2, words(3, 6))
    whole = serve(engine(arithmetic="per_row"), asked)
    assert serve(engine(arithmetic="per_row", max_chunk=5), asked) == whole


def test_a_limited_chunk_leaves_room_for_the_prompt_behind_it():
    server = engine(token_budget=16, max_chunk=8)
    server.add_request("long", words(1, 60))
    server.add_request("short", words(2, 8))
    assert [(span.request.id, span.count) for span in server.step().spans] == [("long", 8), ("short", 8)]


def test_a_large_request_at_the_head_of_the_queue_is_not_overtaken():
    server = engine(num_blocks=16, token_budget=64)
    server.add_request("first", words(1, 40), Sampling(max_tokens=6))
    server.step()
    server.add_request("large", words(2, 50), Sampling(max_tokens=2))
    server.add_request("small", words(3, 4), Sampling(max_tokens=2))
    finished = [o.request.id for step in server.run() for o in step.outputs if o.is_last]
    assert finished.index("first") < finished.index("small")
    assert server.statistics.requests == 3


def test_a_finished_request_is_over_and_may_come_again_under_its_name():
    server = engine()
    request = server.add_request("r", words(1, 4))
    server.run()
    assert request.state is State.FINISHED
    server.add_request("r", words(1, 4))


def test_the_log_probability_is_the_models_own_whatever_the_temperature():
    cold = serve(engine(), Asked(words(1, 5), Sampling(max_tokens=1)))[0]
    for seed in range(20):
        hot = serve(engine(), Asked(words(1, 5), Sampling(max_tokens=1, temperature=2.0, seed=seed)))[0]
        if hot[0] == cold[0]:
            assert hot[1] == pytest.approx(cold[1], abs=TOLERANCE)
            return
    raise AssertionError("never drew the likeliest token")
