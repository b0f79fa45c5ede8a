"""Preprocessing outside the engine loop: processes of its own, and a cache for pictures that come again."""

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from simworkers.engine.images import DEFAULT_LIMITS, ImageLimits, RefusedImage
from simworkers.engine.patches import ProcessedImage, ProcessorArgs
from simworkers.engine.preprocessing_cache import Key, PreprocessingCache, cache_key
from simworkers.engine.preprocessing_link import PreprocessingError, Worker
from simworkers.engine.preprocessing_worker import process_image


@dataclass(frozen=True)
class PreprocessingStatistics:
    """Every request is one of hit, joined and miss."""

    hits: int = 0  # found in the cache
    joined: int = 0  # waited for an equal request that was under way
    misses: int = 0  # computed
    refused: int = 0  # of all requests, those that ended in RefusedImage
    failed: int = 0  # of all requests, those that ended in PreprocessingError
    evictions: int = 0

    @property
    def requests(self) -> int:
        return self.hits + self.joined + self.misses


@dataclass
class Job:
    """A picture to be computed, and what waits for it."""

    key: Key
    data: bytes
    done: "Future[ProcessedImage]"
    outcome: ProcessedImage | RefusedImage | PreprocessingError | None = None


class Preprocessor:
    """Turns picture files into patches, each file once as long as the cache holds it. A context manager.

    With workers = 0 it computes in this process and has no time limit; for small uses and trusted pictures. Safe to
    call from several threads; called from one, its statistics follow from the calls alone.
    """

    def __init__(
        self,
        *,
        workers: int = 1,
        cache_bytes: int = 256 * 2**20,
        time_limit_s: float = 10.0,  # per picture, the start of its worker included
        limits: ImageLimits = DEFAULT_LIMITS,
    ) -> None:
        if not 0 <= workers <= 64:
            raise ValueError(f"workers: must lie in 0 … 64, not {workers}")
        if not time_limit_s > 0:
            raise ValueError(f"time_limit_s: must be above 0, not {time_limit_s}")
        self.limits = limits
        self._cache = PreprocessingCache(cache_bytes)
        self._counts = Counter[str]()
        self._workers = [Worker(time_limit_s) for _ in range(workers)]
        self._idle = list(self._workers)
        self._under_way: dict[Key, Future[ProcessedImage]] = {}
        self._closed = False
        # Guards everything above; told when a worker becomes idle.
        self._changed = threading.Condition()

    def process(self, data: bytes, args: ProcessorArgs) -> ProcessedImage:
        """The patches of one file. RefusedImage if it is not taken, PreprocessingError if a worker fails."""
        return self.process_many([data], args)[0]

    def process_many(self, files: Sequence[bytes], args: ProcessorArgs) -> list[ProcessedImage]:
        """The patches of several files, spread over the workers; equal ones once. The first error is raised.

        Files enter the cache in the order given, whichever worker is done first.
        """
        futures, jobs = self._look_up(files, args)
        try:
            self._compute_all(jobs)
        finally:
            self._settle(jobs)
        errors = [error for future in futures if (error := future.exception()) is not None]
        with self._changed:
            self._counts["refused"] += sum(isinstance(error, RefusedImage) for error in errors)
            self._counts["failed"] += sum(isinstance(error, PreprocessingError) for error in errors)
        if errors:
            raise errors[0]
        return [future.result() for future in futures]

    def statistics(self) -> PreprocessingStatistics:
        """What happened since this object was made; `reset` does not clear it."""
        with self._changed:
            return PreprocessingStatistics(**self._counts, evictions=self._cache.evictions)

    @property
    def cached_bytes(self) -> int:
        return self._cache.used_bytes

    def reset(self) -> None:
        """Empty the cache, and keep what is being computed now from entering it."""
        with self._changed:
            self._cache.reset()
            self._under_way.clear()

    def check_integrity(self) -> None:
        """AssertionError if cache, workers and what is under way contradict each other."""
        with self._changed:
            self._cache.check_integrity()
            assert set(map(id, self._idle)) <= set(map(id, self._workers)), "an idle worker of nobody"
            assert len(self._idle) == len(set(map(id, self._idle))), "a worker is idle twice"
            assert not any(key in self._cache for key in self._under_way), "computed although it is cached"

    def close(self) -> None:
        """Kill the workers. Whoever waits for one gets PreprocessingError; later calls are refused."""
        with self._changed:
            self._closed = True
            for worker in self._workers:
                if worker in self._idle:
                    worker.stop()
                else:
                    worker.kill()
            self._changed.notify_all()

    def _look_up(
        self, files: Sequence[bytes], args: ProcessorArgs
    ) -> tuple[list["Future[ProcessedImage]"], list[Job]]:
        """(what each file becomes, what this call has to compute); counts every file once."""
        keys = [cache_key(data, args) for data in files]
        futures, jobs = [], []
        with self._changed:
            if self._closed:
                raise ValueError("preprocessor: it is closed")
            for key, data in zip(keys, files, strict=True):
                future = self._under_way.get(key)
                if future is not None:
                    self._counts["joined"] += 1
                elif (image := self._cache.get(key)) is not None:
                    self._counts["hits"] += 1
                    future = Future()
                    future.set_result(image)
                else:
                    self._counts["misses"] += 1
                    future = self._under_way[key] = Future()
                    jobs.append(Job(key, data, future))
                futures.append(future)
        return futures, jobs

    def _compute_all(self, jobs: list[Job]) -> None:
        threads = min(len(jobs), len(self._workers))
        if threads <= 1:
            for job in jobs:
                self._compute(job)
            return
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(self._compute, jobs))

    def _compute(self, job: Job) -> None:
        args = job.key[1]
        try:
            if not self._workers:
                job.outcome = process_image(job.data, args, self.limits)
                return
            worker = self._take_worker()
            try:
                job.outcome = worker.process_image(job.data, args, self.limits)
            finally:
                self._give_back(worker)
        except (RefusedImage, PreprocessingError) as error:
            job.outcome = error

    def _settle(self, jobs: list[Job]) -> None:
        """Put what was computed into the cache, in order, and wake who waits for it."""
        with self._changed:
            for job in jobs:
                current = self._under_way.get(job.key) is job.done  # else the cache was reset meanwhile
                if current:
                    del self._under_way[job.key]
                if current and isinstance(job.outcome, ProcessedImage):
                    self._cache.put(job.key, job.outcome)
        for job in jobs:
            if isinstance(job.outcome, ProcessedImage):
                job.done.set_result(job.outcome)
            else:
                job.done.set_exception(job.outcome or PreprocessingError("preprocessing was interrupted"))

    def _take_worker(self) -> Worker:
        with self._changed:
            self._changed.wait_for(lambda: self._idle or self._closed)
            if self._closed:
                raise PreprocessingError("the preprocessor was closed")
            return self._idle.pop()

    def _give_back(self, worker: Worker) -> None:
        with self._changed:
            self._idle.append(worker)
            if self._closed:
                worker.stop()
            self._changed.notify()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
