"""The price of a step against rooflines in plain floats, and what parallelism does to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simworkers.agents.serving.cost import FS_PER_S, Batch, StepCost, StepTime
from simworkers.agents.serving.profiles import MODELS
from simworkers.hardware import BYTES_PER_WEIGHT, GPUS

H200 = GPUS["h200"]
DENSE, SPARSE = MODELS["qwen3-32b"], MODELS["qwen3-30b-a3b"]


def cost(model=DENSE, gpu=H200, **changes):
    return StepCost(model, gpu, **({"token_budget": 8192} | changes))


def roofline_s(model, gpu, batch):
    """One GPU, from the definition: weights or products, whichever takes longer, and both parts of attention."""
    tokens = batch.decodes + batch.prefill_tokens
    products_s = 2 * model.active_weights * tokens / gpu.flops_per_s[model.precision]
    weights_s = model.read_bytes(tokens) / gpu.hbm_bytes_per_s
    kv_s = batch.context_tokens * model.kv_bytes_per_token / gpu.hbm_bytes_per_s
    pairs_s = 2 * model.layers * model.attention_width * batch.prefill_pairs / gpu.flops_per_s["bf16"]
    return max(products_s, weights_s) + kv_s + pairs_s


batches = st.builds(
    Batch,
    decodes=st.integers(0, 300),
    context_tokens=st.integers(0, 3_000_000),
    prefill_tokens=st.integers(1, 8000),
    prefill_pairs=st.integers(0, 10**9),
)


@given(
    batches,
    st.sampled_from(["qwen3-32b", "qwen3-30b-a3b", "deepseek-v3"]),
    st.sampled_from(["h100", "h200", "b200"]),
)
def test_a_step_takes_what_a_roofline_in_floats_says(batch, model, gpu):
    step = cost(MODELS[model], GPUS[gpu]).step(batch)
    assert step.first / FS_PER_S == pytest.approx(roofline_s(MODELS[model], GPUS[gpu], batch), rel=2e-3)


@given(batches, st.sampled_from([1, 2, 4, 8]))
def test_tensor_parallelism_divides_weights_products_and_attention(batch, ranks):
    alone, shared = cost().step(batch), cost(tensor_parallel=ranks).step(batch)
    assert (alone.hbm + alone.flops) / (shared.hbm + shared.flops) == pytest.approx(ranks, rel=5e-3)


@pytest.mark.parametrize(
    ("model", "ranks", "copies"), [(SPARSE, 4, 1), (SPARSE, 8, 2), (MODELS["deepseek-v3"], 8, 8)]
)
def test_more_ranks_than_kv_heads_read_the_same_kv_side_by_side(model, ranks, copies):
    context = 10**6
    empty, full = (cost(model, tensor_parallel=ranks).step(Batch(1, tokens, 0)) for tokens in (0, context))
    kv_s = context * model.kv_bytes_per_token * copies / (ranks * H200.hbm_bytes_per_s)
    assert (full.hbm - empty.hbm) / FS_PER_S == pytest.approx(kv_s, rel=1e-3)


def test_tensor_parallelism_pays_for_two_all_reduces_a_layer():
    batch = Batch(decodes=16, context_tokens=0, prefill_tokens=0)
    step = cost(tensor_parallel=4, collective_us=7).step(batch)
    sent_s = 16 * 2 * DENSE.layers * 2 * (3 / 4) * DENSE.hidden * 2 / H200.nvlink_bytes_per_s
    assert step.links / FS_PER_S == pytest.approx(2 * DENSE.layers * 7e-6 + sent_s, rel=1e-6)
    assert cost(collective_us=7).step(batch).links == 0


def test_a_pipeline_hands_hidden_states_on_once_a_stage():
    batch = Batch(decodes=4, context_tokens=0, prefill_tokens=0)
    step = cost(pipeline_parallel=4, collective_us=7).step(batch)  # one token in each micro-batch
    assert step.links / FS_PER_S == pytest.approx(
        3 * (7e-6 + DENSE.hidden * 2 / H200.nvlink_bytes_per_s), rel=1e-6
    )


def test_a_batch_that_cannot_fill_a_pipeline_takes_a_round_as_long_as_one_gpu():
    lone = Batch(decodes=1, context_tokens=1000, prefill_tokens=0)
    whole, piped = cost().step(lone), cost(pipeline_parallel=4).step(lone)
    assert (piped.hbm, piped.flops) == (whole.hbm, whole.flops)


def test_a_full_pipeline_serves_many_chunks_in_the_time_of_one():
    one, four = Batch(0, 0, 8192, 0), Batch(0, 0, 4 * 8192, 0)
    assert cost(pipeline_parallel=4).step(four).flops == cost().step(one).flops
    assert cost(pipeline_parallel=4).chunk_room(0) == 4 * 8192


def test_tensor_parallelism_beats_a_pipeline_on_a_small_step_and_loses_on_a_full_one_over_slow_links():
    """Which wins is an outcome: a few new tokens cannot fill stages; many pay for all-reduces."""
    few, many = Batch(1, 140_000, 0), Batch(0, 0, 4 * 8192, 0)
    tensor = cost(tensor_parallel=4, collective_us=10)
    piped = cost(pipeline_parallel=4, collective_us=10)
    assert tensor.step(few).first < piped.step(few).first
    four_rounds = 4 * tensor.step(Batch(0, 0, 8192, 0)).first
    assert piped.step(many).first < four_rounds


def test_a_decoding_batch_is_bound_by_hbm_and_a_long_chunk_by_flops():
    decoding, reading = cost().step(Batch(8, 0, 0)), cost().step(Batch(0, 0, 8192))
    assert decoding.flops == 0 < decoding.hbm
    assert reading.hbm == 0 < reading.flops


def test_a_few_tokens_read_a_few_experts_and_many_read_all():
    size = BYTES_PER_WEIGHT[SPARSE.precision]
    assert SPARSE.read_bytes(1) == pytest.approx(SPARSE.active_weights * size, rel=1e-6)
    assert SPARSE.read_bytes(16) == SPARSE.read_bytes(8000) == SPARSE.weights * size
    assert SPARSE.read_bytes(1) < SPARSE.read_bytes(2) < SPARSE.read_bytes(16)


whole = st.integers(0, 10**12)


@given(st.builds(StepTime, whole, whole, whole, whole, whole, whole), st.integers(0, 200))
def test_the_closed_form_of_a_stretch_is_the_sum_of_its_steps(step, steps):
    assert step.total(steps) == sum(step.first + n * step.growth for n in range(steps))


@given(st.integers(1, 40), st.integers(1, 10**5), st.integers(0, 30), st.sampled_from([1, 2, 4]))
def test_decoding_on_costs_what_steps_over_the_longer_contexts_cost(decodes, context, steps, stages):
    priced = cost(pipeline_parallel=stages, step_overhead_us=50)
    first = priced.step(Batch(decodes, context, 0))
    later = priced.step(Batch(decodes, context + steps * decodes, 0))
    assert first.first + steps * first.growth == later.first


@given(st.integers(1, 500), st.integers(0, 5000), st.integers(0, 30))
def test_reading_on_in_equal_chunks_costs_what_chunks_over_the_longer_contexts_cost(chunk, before, steps):
    def batch(start):
        return Batch(0, 0, chunk, chunk * start + chunk * (chunk + 1) // 2, chunk * chunk)

    first, later = cost().step(batch(before)), cost().step(batch(before + steps * chunk))
    assert first.first + steps * first.growth == later.first


@pytest.mark.parametrize(
    ("stages", "decodes", "room"), [(1, 0, 512), (1, 12, 500), (2, 5, 1018), (1, 600, 0)]
)
def test_decoding_requests_take_their_tokens_from_the_budget_of_prompts(stages, decodes, room):
    assert cost(pipeline_parallel=stages, token_budget=512).chunk_room(decodes) == room


def test_a_gpu_without_the_models_arithmetic_is_refused():
    gpu = type(H200)("old", H200.hbm_bytes, 1e12, {"bf16": 1e14}, 1e11)
    with pytest.raises(ValueError, match="gpu: the old has no fp8 arithmetic"):
        cost(MODELS["deepseek-v3"], gpu)


@given(st.builds(StepTime, st.integers(1, 10**12), whole, whole, whole, whole, whole), st.integers(0, 10**15))
def test_steps_completed_in_a_span_are_the_most_that_fit_it(step, span):
    steps = step.completed(span)
    assert step.total(steps) <= span < step.total(steps + 1)
