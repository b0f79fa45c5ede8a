import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from simworkers.engine import preprocessing_link
from simworkers.engine.images import RefusedImage, decode_image
from simworkers.engine.patches import ProcessorArgs, make_patches
from simworkers.engine.preprocessing import Preprocessor
from simworkers.engine.preprocessing_cache import PreprocessingCache
from simworkers.engine.preprocessing_link import PreprocessingError

ROOT = Path(__file__).resolve().parents[3]
ARGS = ProcessorArgs(max_tokens=16)
OTHER_ARGS = ProcessorArgs(max_tokens=9)
PATIENCE_S = 120.0  # for the start of a worker on a busy machine


def png(seed, side=56):
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


IMAGE_BYTES = make_patches(decode_image(png(0)), ARGS).patches.nbytes  # the same for every png(seed)


@pytest.fixture
def preprocessor():
    """In this process: for what the cache and the counts do."""
    with Preprocessor(workers=0, cache_bytes=2 * IMAGE_BYTES) as made:
        yield made
        made.check_integrity()


@pytest.fixture(scope="module")
def pool():
    with Preprocessor(workers=2, time_limit_s=PATIENCE_S) as made:
        yield made
        made.check_integrity()


def equal(one, other):
    return np.array_equal(one.patches, other.patches) and one.grid == other.grid


def counts(preprocessor):
    numbers = preprocessor.statistics()
    return numbers.hits, numbers.joined, numbers.misses


def process_of(preprocessor):
    """The process of the first worker, which runs."""
    process = preprocessor._workers[0].process
    assert process is not None
    return process


def test_a_worker_gives_what_this_process_would(pool):
    for args in (ARGS, OTHER_ARGS, ProcessorArgs(tile_px=28, max_tiles=4)):
        image = pool.process(png(1), args)
        expected = make_patches(decode_image(png(1)), args)
        assert equal(image, expected) and image.num_tokens == expected.num_tokens


def test_many_come_back_in_order(pool):
    files = [png(seed) for seed in range(6)]
    for data, image in zip(files, pool.process_many(files, ARGS), strict=True):
        assert equal(image, make_patches(decode_image(data), ARGS))


def test_a_worker_refuses_a_picture_with_the_same_words(pool):
    data = png(1)[:-60]
    with pytest.raises(RefusedImage) as ours:
        decode_image(data)
    with pytest.raises(RefusedImage) as theirs:
        pool.process(data, ARGS)
    assert str(theirs.value) == str(ours.value)


def test_a_worker_loads_no_torch(pool):
    pool.process(png(1), OTHER_ARGS)
    running = [worker.process.pid for worker in pool._workers if worker.process]
    assert running
    for pid in running:
        assert "libtorch" not in Path(f"/proc/{pid}/maps").read_text()


def test_what_pictures_need_loads_no_torch():
    code = """
import sys
import simworkers.engine.preprocessing, simworkers.multimodal.clients, simworkers.multimodal.identity
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_picture_that_comes_again_is_a_hit(preprocessor):
    first = preprocessor.process(png(1), ARGS)
    assert preprocessor.process(png(1), ARGS) is first
    assert counts(preprocessor) == (1, 0, 1)


def test_other_processor_arguments_are_another_picture(preprocessor):
    preprocessor.process(png(1), ARGS)
    preprocessor.process(png(1), OTHER_ARGS)
    assert counts(preprocessor) == (0, 0, 2)


def test_the_one_used_longest_ago_leaves_first(preprocessor):
    for seed in (1, 2, 1, 3, 1, 2):  # 3 drives out 2
        preprocessor.process(png(seed), ARGS)
        preprocessor.check_integrity()
    assert counts(preprocessor) == (2, 0, 4)
    assert preprocessor.statistics().evictions == 2


def test_a_picture_above_the_whole_budget_is_not_kept_and_drives_out_nothing():
    with Preprocessor(workers=0, cache_bytes=IMAGE_BYTES) as small:
        small.process(png(1), ARGS)
        small.process(png(2, side=112), ARGS)
        assert small.cached_bytes == IMAGE_BYTES and small.statistics().evictions == 0


def test_reset_forgets_pictures_and_keeps_the_counts(preprocessor):
    preprocessor.process(png(1), ARGS)
    preprocessor.reset()
    assert preprocessor.cached_bytes == 0
    preprocessor.process(png(1), ARGS)
    assert counts(preprocessor) == (0, 0, 2)


def test_equal_pictures_of_one_call_are_computed_once(preprocessor):
    images = preprocessor.process_many([png(1), png(2), png(1)], ARGS)
    assert images[0] is images[2]
    assert counts(preprocessor) == (0, 1, 2)


def test_a_refused_picture_is_counted_and_not_kept(preprocessor):
    for _ in range(2):
        with pytest.raises(RefusedImage):
            preprocessor.process(b"no picture", ARGS)
    assert counts(preprocessor) == (0, 0, 2)
    assert preprocessor.statistics().refused == 2


def test_one_refused_picture_does_not_lose_the_others(preprocessor):
    with pytest.raises(RefusedImage):
        preprocessor.process_many([png(1), b"no picture", png(2)], ARGS)
    preprocessor.process_many([png(1), png(2)], ARGS)
    assert counts(preprocessor) == (2, 0, 3)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([ARGS, OTHER_ARGS])), max_size=25),
    st.integers(0, 4),
)
def test_hits_are_those_of_a_plain_list_that_forgets_its_oldest(requests, capacity):
    files = [png(seed, side=28) for seed in range(5)]  # enlarged to four tokens, whatever the arguments
    size = make_patches(decode_image(files[0]), ARGS).patches.nbytes
    recent: list[tuple[int, ProcessorArgs]] = []
    hits = 0
    with Preprocessor(workers=0, cache_bytes=capacity * size) as tried:
        for request in requests:
            if request in recent:
                recent.remove(request)
                hits += 1
            recent = [*recent, request][-capacity:] if capacity else []
            tried.process(files[request[0]], request[1])
            tried.check_integrity()
        assert tried.statistics().hits == hits
        assert tried.statistics().requests == len(requests)


def test_a_killed_worker_is_an_error_and_the_next_picture_gets_a_new_one():
    with Preprocessor(workers=1, time_limit_s=PATIENCE_S) as pool:
        pool.process(png(1), ARGS)
        process_of(pool).kill()
        with pytest.raises(PreprocessingError, match="the preprocessing worker ended with status -9"):
            pool.process(png(2), ARGS)
        assert pool.process(png(2), ARGS).num_tokens == 4
        assert pool.statistics().failed == 1
        pool.check_integrity()


def test_a_picture_that_takes_too_long_is_an_error():
    with Preprocessor(workers=1, time_limit_s=0.001) as pool:
        with pytest.raises(PreprocessingError, match=r"a picture took longer than 0.001 s"):
            pool.process(png(1), ARGS)
        assert pool._workers[0].process is None


def test_a_worker_that_hangs_is_killed_at_its_time_limit():
    with Preprocessor(workers=1, time_limit_s=PATIENCE_S) as pool:
        pool.process(png(1), ARGS)
        pool._workers[0].time_limit_s = 0.2
        process = process_of(pool)
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(PreprocessingError, match="took longer"):
            pool.process(png(2), ARGS)
        assert process.returncode == -signal.SIGKILL


def test_closing_ends_every_worker_and_refuses_later_calls():
    pool = Preprocessor(workers=2, time_limit_s=PATIENCE_S)
    pool.process_many([png(1), png(2)], ARGS)
    processes = [worker.process for worker in pool._workers if worker.process]
    pool.close()
    assert processes and all(process.returncode is not None for process in processes)
    with pytest.raises(ValueError, match="preprocessor: it is closed"):
        pool.process(png(1), ARGS)


def test_closing_frees_whoever_waits_for_a_picture():
    pool = Preprocessor(workers=1, time_limit_s=PATIENCE_S)
    pool.process(png(1), ARGS)
    process_of(pool).send_signal(signal.SIGSTOP)
    outcomes = []

    def ask():
        try:
            pool.process(png(2), ARGS)
        except PreprocessingError as error:
            outcomes.append(error)

    waiting = threading.Thread(target=ask)
    waiting.start()
    while pool._idle:
        time.sleep(0.001)
    pool.close()
    waiting.join(120)
    assert len(outcomes) == 1 and pool._workers[0].process is None


def test_equal_requests_at_the_same_time_are_computed_once():
    with Preprocessor(workers=1, time_limit_s=PATIENCE_S) as pool:
        pool.process(png(1), ARGS)
        worker = process_of(pool)
        worker.send_signal(signal.SIGSTOP)
        images = []
        asking = [
            threading.Thread(target=lambda: images.append(pool.process(png(2), ARGS))) for _ in range(4)
        ]
        for thread in asking:
            thread.start()
        while pool.statistics().requests < 5:
            time.sleep(0.001)
        worker.send_signal(signal.SIGCONT)
        for thread in asking:
            thread.join()
        assert counts(pool) == (0, 3, 2)
        assert len({id(image) for image in images}) == 1


def test_what_was_under_way_at_a_reset_does_not_enter_the_cache():
    with Preprocessor(workers=1, time_limit_s=PATIENCE_S) as pool:
        pool.process(png(1), ARGS)
        worker = process_of(pool)
        worker.send_signal(signal.SIGSTOP)
        asking = threading.Thread(target=lambda: pool.process(png(2), ARGS))
        asking.start()
        while pool.statistics().requests < 2:
            time.sleep(0.001)
        pool.reset()
        worker.send_signal(signal.SIGCONT)
        asking.join()
        assert pool.cached_bytes == 0
        pool.check_integrity()


def test_a_worker_ends_when_its_parent_dies():
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            pool = Preprocessor(workers=1, time_limit_s=PATIENCE_S)
            pool.process(png(1), ARGS)
            os.write(writing, str(process_of(pool).pid).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(writing)  # so that a child which fails is an end and no endless wait
    os.waitpid(child, 0)
    worker = int(os.read(reading, 32))
    os.close(reading)
    deadline = time.monotonic() + 120
    while _runs(worker):
        assert time.monotonic() < deadline, "the worker outlived its parent"
        time.sleep(0.01)


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": -1}, "workers"),
        ({"time_limit_s": 0}, "time_limit_s"),
        ({"cache_bytes": -1}, "budget_bytes"),
    ],
)
def test_a_nonsensical_option_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        Preprocessor(**options)


def test_the_integrity_check_notices_wrong_books():
    cache = PreprocessingCache(2 * IMAGE_BYTES)
    with Preprocessor(workers=0) as tried:
        cache.put((b"", ARGS), tried.process(png(1), ARGS))
    cache.check_integrity()
    cache.used_bytes -= 1
    with pytest.raises(AssertionError):
        cache.check_integrity()


def test_a_worker_finds_its_code_whatever_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with Preprocessor(workers=1, time_limit_s=PATIENCE_S) as pool:
        assert pool.process(png(1), ARGS).num_tokens == 4
    assert (preprocessing_link.PACKAGE_ROOT / "simworkers").is_dir()
