import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simworkers.multimodal.arrivals import Arrival
from simworkers.multimodal.cluster_params import ClusterParams
from simworkers.multimodal.cluster_workers import EncoderWorker, Job, LanguageWorker, Prices
from simworkers.multimodal.stage_cost import causal_pairs, decoder_pass, encode

PARAMS = ClusterParams(model="qwen2-vl-7b", tensor_parallel=1, token_budget=512, max_batch=16)
PRICES = Prices(PARAMS)
SMALL = PARAMS.with_changes(image_width_px=112, image_height_px=84)  # 4 × 3 = 12 tokens


def job(prices, text_tokens, output_tokens, images=0, encoded=0):
    return Job(Arrival(0, 0, text_tokens, output_tokens, images, 0), prices.image_tokens, encoded)


def drain(worker):
    """Run a worker until it is idle; the time that took."""
    now_us = 0
    while duration_us := worker.start(now_us):
        now_us += duration_us
        worker.finish(now_us)
    return now_us


def naive_finish_times(params, jobs):
    """Every token of every request one by one, with nothing summed up between steps. First and last token's times."""
    prices, now_us, waiting = Prices(params), 0, list(jobs)
    running: list[Job] = []
    times = {id(one): [0, 0] for one in jobs}
    state = {id(one): [0, 0, 0] for one in jobs}  # prefilled, outputs made, images encoded
    room = prices.kv_room_tokens(params)
    per_step = max(1, params.token_budget // prices.image_tokens)
    while running or waiting:
        while waiting and len(running) < params.max_batch:
            held = sum(one.prompt_tokens + one.arrival.output_tokens for one in running)
            if held + waiting[0].prompt_tokens + waiting[0].arrival.output_tokens > room:
                break
            running.append(waiting.pop(0))
        decoding = [one for one in running if state[id(one)][1]]
        budget, images, chunks = params.token_budget - len(decoding), 0, []
        for one in running:
            prefilled, made, encoded = state[id(one)]
            if made:
                continue
            take = 0
            while take < budget and prefilled + take < one.prompt_tokens:
                image = (prefilled + take) // one.image_tokens
                if image < one.arrival.images and image >= encoded:
                    if images == per_step:
                        break
                    images, encoded = images + 1, encoded + 1
                take += 1
            if not take:
                break
            chunks.append((one, prefilled, take))
            state[id(one)] = [prefilled, made, encoded]
            budget -= take
        contexts = [one.prompt_tokens + state[id(one)][1] for one in decoding]
        tokens = len(decoding) + sum(take for _, _, take in chunks)
        read = sum(contexts) + sum(prefilled for _, prefilled, _ in chunks)
        pairs = sum(contexts) + sum(causal_pairs(take, prefilled) for _, prefilled, take in chunks)
        passed = decoder_pass(prices.model.decoder, prices.placement, tokens, read, pairs).us
        now_us += passed + encode(prices.model.encoder, prices.gpu, prices.sequences * images).us
        for one in decoding:
            state[id(one)][1] += 1
        for one, _, take in chunks:
            state[id(one)][0] += take
            if state[id(one)][0] == one.prompt_tokens:
                state[id(one)][1] = 1
                times[id(one)][0] = now_us
        for one in [one for one in running if state[id(one)][1] == one.arrival.output_tokens]:
            times[id(one)][1] = now_us
            running.remove(one)
    return [tuple(times[id(one)]) for one in jobs]


requests = st.lists(
    st.tuples(st.integers(1, 900), st.integers(1, 12), st.integers(0, 6)), min_size=1, max_size=24
)


@settings(max_examples=60, deadline=None)
@given(drawn=requests)
def test_times_equal_those_of_a_naive_loop_over_every_token(drawn):
    params = SMALL.with_changes(token_budget=64, max_batch=8)
    prices = Prices(params)
    jobs = [job(prices, *one) for one in drawn]
    expected = naive_finish_times(params, jobs)
    worker = LanguageWorker(prices, params)
    for one in jobs:
        worker.queue(one, 0)
    drain(worker)
    assert [(one.first_token_us, one.finished_us) for one in jobs] == expected


@settings(max_examples=30, deadline=None)
@given(drawn=requests)
def test_a_drained_worker_has_all_its_room_back_and_nothing_left(drawn):
    worker = LanguageWorker(Prices(SMALL), SMALL)
    for one in drawn:
        worker.queue(job(worker.prices, *one), 0)
    total_us = drain(worker)
    assert worker.kv_free_tokens == worker.prices.kv_room_tokens(SMALL)
    assert (worker.outstanding, worker.context_tokens, dict(worker.finishing)) == (0, 0, {})
    assert worker.times.steps_us == total_us


def test_images_encoded_elsewhere_take_no_time_of_the_language_worker():
    worker = LanguageWorker(PRICES, PARAMS)
    worker.queue(job(PRICES, 100, 4, images=2, encoded=2), 0)
    drain(worker)
    assert worker.times.encode_gpu_us == 0


def test_an_encode_stalls_the_decode_of_the_batch():
    def last_token_us(images):
        worker = LanguageWorker(PRICES, PARAMS)
        answering = job(PRICES, 10, 50)
        worker.queue(answering, 0)
        now_us = worker.start(0)
        worker.finish(now_us)
        worker.queue(job(PRICES, PRICES.image_tokens * (1 - images) + 10, 2, images=images), now_us)
        while duration_us := worker.start(now_us):
            now_us += duration_us
            worker.finish(now_us)
        return answering.finished_us

    assert last_token_us(1) - last_token_us(0) == PRICES.encode_us(1)


def test_a_chunk_is_cut_before_an_image_that_the_step_cannot_encode():
    params = SMALL.with_changes(token_budget=64)
    worker = LanguageWorker(Prices(params), params)
    asked = job(worker.prices, 10, 2, images=6)
    worker.queue(asked, 0)
    worker.finish(worker.start(0))
    assert (asked.encoded, asked.prefilled) == (64 // 12, 64 // 12 * 12)


def test_gpus_that_share_images_out_encode_two_in_the_time_of_one():
    params = PARAMS.with_changes(tensor_parallel=2, spread_images=True, token_budget=8192)
    prices = Prices(params)
    worker = LanguageWorker(prices, params)
    worker.queue(job(prices, 10, 2, images=2), 0)
    worker.start(0)
    assert worker.step is not None
    assert worker.step.encode_us == prices.encode_us(1) < prices.encode_us(2)


@pytest.mark.parametrize(
    ("spread", "images", "encoded_by_each"), [(False, 3, [3]), (True, 3, [2, 1]), (True, 1, [1])]
)
def test_a_gpu_of_a_group_that_waits_for_anothers_encode_is_not_executing(spread, images, encoded_by_each):
    params = PARAMS.with_changes(
        tensor_parallel=2, spread_images=spread, token_budget=16_384, step_overhead_us=500
    )
    worker = LanguageWorker(Prices(params), params)
    worker.queue(job(worker.prices, 10, 1, images=images), 0)
    drain(worker)
    encoder, gpu, sequences = PRICES.model.encoder, PRICES.gpu, PRICES.sequences
    encode_us = sum(encode(encoder, gpu, sequences * count).us for count in encoded_by_each)
    assert worker.times.encode_gpu_us == encode_us
    assert worker.times.executing_gpu_us(2) < 2 * worker.times.steps_us - 2 * 500


def test_host_time_is_no_executing_of_an_encoder_worker():
    params = PARAMS.with_changes(step_overhead_us=1000)
    worker = EncoderWorker(Prices(params), 2)
    worker.waiting.append((job(PRICES, 1, 1, images=1), 0))
    assert worker.start(0) == PRICES.encode_us(1) + 1000
    worker.finish()
    assert worker.executing_us == PRICES.encode_us(1)


def test_requests_beyond_the_kv_room_wait_and_the_blocked_time_is_counted():
    params = PARAMS.with_changes(hbm_share_percent=26, images_min=1, images_max=1, image_share_percent=0)
    worker = LanguageWorker(Prices(params), params)
    room = worker.kv_free_tokens
    for _ in range(3):
        worker.queue(job(worker.prices, room // 2, 20), 0)
    drain(worker)
    assert worker.times.kv_blocked_us > 0


def test_the_kv_room_is_what_weights_leave_of_the_usable_hbm():
    model = PRICES.model
    left = 80 * 10**9 * 90 // 100 - model.decoder.weights_bytes - model.encoder.weights_bytes
    assert PRICES.kv_room_tokens(PARAMS) == left // model.decoder.kv_bytes_per_token
    apart = PARAMS.with_changes(encoder_workers=2)
    assert Prices(apart).kv_room_tokens(apart) > PRICES.kv_room_tokens(PARAMS)


def test_a_model_that_does_not_fit_is_refused_by_name():
    params = PARAMS.with_changes(model="qwen2.5-vl-72b")
    with pytest.raises(ValueError, match="model: 1 × H100 SXM leave room for 0 KV tokens"):
        LanguageWorker(Prices(params), params)


def test_an_encoder_worker_takes_no_more_than_its_batch_and_books_how_long_images_waited():
    worker = EncoderWorker(PRICES, 2)
    for queued_us in (0, 10, 20):
        worker.waiting.append((job(PRICES, 1, 1, images=1), queued_us))
    assert worker.start(100) == PRICES.encode_us(2)
    assert (len(worker.batch), len(worker.waiting), worker.waits_us) == (2, 1, [100, 90])


def test_embeddings_queue_on_their_encoders_link():
    worker = EncoderWorker(PRICES, 2)
    first, second = worker.send(1000, 200), worker.send(1000, 200)
    assert first == 1000 + PRICES.embedding_us + 200
    assert second - first == PRICES.embedding_us


def test_host_time_is_paid_by_every_step_and_every_encode():
    params = PARAMS.with_changes(step_overhead_us=1000)
    slow, bare = (LanguageWorker(Prices(one), one) for one in (params, PARAMS))
    for worker in (slow, bare):
        worker.queue(job(worker.prices, 10, 5, images=1), 0)
    assert drain(slow) - drain(bare) == 1000 * (slow.step_index + 1)
