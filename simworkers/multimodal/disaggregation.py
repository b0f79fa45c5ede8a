"""Encoder workers apart (E/PD) against workers that do everything: a discrete-event simulation in whole microseconds.

`python -m simworkers.multimodal.disaggregation` prints what docs/labs/multimodal-stages.md quotes.
"""

import heapq
from collections.abc import Callable
from typing import Any

from simworkers.jobs import Progress
from simworkers.multimodal.arrivals import Arrival, draw_arrivals
from simworkers.multimodal.cluster_metrics import ClusterMetrics, measure
from simworkers.multimodal.cluster_params import ClusterParams
from simworkers.multimodal.cluster_workers import EncoderWorker, Job, LanguageWorker, Prices
from simworkers.multimodal.stage_cost import preprocess, upload

Event = tuple[int, int, Callable[[int], None]]
EVENTS_BETWEEN_SIGNS = 8192  # about a tenth of a second


def silent(_finished: int, _all: int) -> None:
    """Progress that nobody follows."""


def simulate_cluster(params: ClusterParams, seed: int, progress: Progress = silent) -> ClusterMetrics:
    """Run it. The same parameters and seed give the same integers everywhere. progress: (finished, all) requests."""
    cluster = Cluster(params, draw_arrivals(params, seed))
    cluster.run(progress)
    return measure(params, cluster.jobs, cluster.language, cluster.encoders)


def choose_encoder_workers(params: ClusterParams, seed: int) -> dict[int, ClusterMetrics]:
    """The same load for every possible number of encoder workers, 0 being colocated, on the same GPUs."""
    counts = range(0, params.num_gpus - params.tensor_parallel + 1, params.tensor_parallel)
    return {count: simulate_cluster(params.with_changes(encoder_workers=count), seed) for count in counts}


class Cluster:
    """Workers and the events between them. Equal times keep the order in which events were made.

    A request is uploaded whole, then its images are preprocessed at once, each on a CPU core of its own. Colocated, it
    queues at a language worker then. Apart, each image queues at an encoder worker, and the request at a language
    worker once its last embedding has arrived; requests without images go straight there. Each goes to the worker with
    the fewest images or requests outstanding, the lower number of equals.
    """

    def __init__(self, params: ClusterParams, arrivals: list[Arrival]) -> None:
        self.params = params
        self.prices = Prices(params)
        self.horizon_us = params.horizon_s * 1_000_000
        self.language = [LanguageWorker(self.prices, params) for _ in range(params.decoder_workers)]
        self.encoders = [
            EncoderWorker(self.prices, params.encoder_batch_images) for _ in range(params.encoder_workers)
        ]
        self.jobs = [Job(arrival, self.prices.image_tokens, self._encoded(arrival)) for arrival in arrivals]
        self.events: list[Event] = []
        self.made = self.finished = 0
        for job in self.jobs:
            self._at(job.arrival.sent_us + self._before_queue_us(job.arrival), self._ready(job))

    def run(self, progress: Progress = silent) -> None:
        """Until nothing is left to do or the horizon is reached; what progress raises ends it."""
        acted = 0
        while self.events and self.events[0][0] <= self.horizon_us:
            now_us, _, act = heapq.heappop(self.events)
            act(now_us)
            acted += 1
            if acted % EVENTS_BETWEEN_SIGNS == 0:
                progress(self.finished, len(self.jobs))

    def _encoded(self, arrival: Arrival) -> int:
        """Images that the language worker need not encode; cached ones count as the first."""
        return arrival.images if self.params.encoder_workers else arrival.cached_images

    def _before_queue_us(self, arrival: Arrival) -> int:
        uploaded = upload(arrival.images * self.params.image_bytes, self.params.client_bytes_per_s).us
        if not arrival.images:
            return uploaded
        return uploaded + preprocess(self.params.image_width_px * self.params.image_height_px).us

    def _at(self, when_us: int, act: Callable[[int], None]) -> None:
        self.made += 1
        heapq.heappush(self.events, (when_us, self.made, act))

    def _ready(self, job: Job) -> Callable[[int], None]:
        return lambda now_us: self._dispatch(job, now_us)

    def _dispatch(self, job: Job, now_us: int) -> None:
        if not self.encoders or not job.arrival.images:
            self._to_language(job, now_us)
            return
        job.missing = job.arrival.images
        for image in range(job.arrival.images):
            worker = min(self.encoders, key=lambda encoder: encoder.outstanding)
            if image < job.arrival.cached_images:
                self._send(worker, job, now_us)
            else:
                worker.waiting.append((job, now_us))
        for worker in self.encoders:
            self._encode(worker, now_us)

    def _encode(self, worker: EncoderWorker, now_us: int) -> None:
        if worker.waiting and not worker.batch:
            duration_us = worker.start(now_us)
            self._at(now_us + duration_us, lambda then_us: self._encoded_batch(worker, then_us))

    def _encoded_batch(self, worker: EncoderWorker, now_us: int) -> None:
        for job in worker.finish():
            self._send(worker, job, now_us)
        self._encode(worker, now_us)

    def _send(self, worker: EncoderWorker, job: Job, now_us: int) -> None:
        self._at(
            worker.send(now_us, self.params.link_latency_us), lambda then_us: self._embedded(job, then_us)
        )

    def _embedded(self, job: Job, now_us: int) -> None:
        job.missing -= 1
        if not job.missing:
            self._to_language(job, now_us)

    def _to_language(self, job: Job, now_us: int) -> None:
        worker = min(self.language, key=lambda candidate: candidate.outstanding)
        worker.queue(job, now_us)
        self._step(worker, now_us)

    def _step(self, worker: LanguageWorker, now_us: int) -> None:
        if worker.step is None and (duration_us := worker.start(now_us)):
            self._at(now_us + duration_us, lambda then_us: self._stepped(worker, then_us))

    def _stepped(self, worker: LanguageWorker, now_us: int) -> None:
        self.finished += len(worker.finish(now_us))
        self._step(worker, now_us)


EIGHT_IMAGES = {"images_min": 8, "images_max": 8}
FEW_IMAGES = {"requests_per_s": 1000, "num_requests": 800, "images_min": 1, "images_max": 1}

# What the printed table compares: a name, the load, and numbers of encoder workers.
SCENES: tuple[tuple[str, dict[str, Any], tuple[int, ...]], ...] = (
    ("4 images, all at once", {"requests_per_s": 100}, (2, 4, 6)),
    ("8 images, all at once", {"requests_per_s": 100} | EIGHT_IMAGES, (4,)),
    ("4 images, 4 requests/s", {"requests_per_s": 4}, (4,)),
    ("8 images, 1 request/4 s", {"requests_per_s": 0.25, "num_requests": 100} | EIGHT_IMAGES, (4,)),
    ("25% with one image, all at once", {"image_share_percent": 25} | FEW_IMAGES, (2,)),
    ("2% with one image, all at once", {"image_share_percent": 2} | FEW_IMAGES, (2,)),
    ("4 images, all at once, one GPU a worker", {"requests_per_s": 100, "tensor_parallel": 1}, (2, 3, 4)),
)

# The set-up behind the published "6–8× lower TTFT at 1 request/s" (lmsys.org, 12 January 2026): H20s, 64 requests of
# 1–8 images in 1080p and 128 text tokens, 256 out; four GPUs colocated against five and six. The chunk is that page's.
PUBLISHED: dict[str, Any] = {
    "model": "qwen3-vl-235b-a22b",
    "gpu": "h20",
    "tensor_parallel": 4,
    "images_min": 1,
    "images_max": 8,
    "text_tokens_min": 128,
    "text_tokens_max": 128,
    "output_tokens_min": 256,
    "output_tokens_max": 256,
    "num_requests": 64,
    "token_budget": 8192,
}
# The set-up that the page of the published "+5–20% throughput" (blog.vllm.ai, 15 December 2025) measured on GPUs: four
# A100s, four images of 640 × 640 pixels and 400 text tokens, 150 out; four workers against one encoder and three.
PUBLISHED_SMALL: dict[str, Any] = {
    "model": "qwen3-vl-4b",
    "gpu": "a100",
    "num_gpus": 4,
    "tensor_parallel": 1,
    "image_width_px": 640,
    "image_height_px": 640,
    "image_bytes": 66_000,
    "text_tokens_min": 400,
    "text_tokens_max": 400,
    "output_tokens_min": 150,
    "output_tokens_max": 150,
    "num_requests": 400,
    "token_budget": 8192,
}
SEEDS = (1, 2, 3)


def print_row(name: str, setup: str, params: ClusterParams) -> None:
    """Means over SEEDS."""
    runs = [simulate_cluster(params, seed) for seed in SEEDS]

    def mean(value: Callable[[ClusterMetrics], float | None]) -> float:
        return sum(value(run) or 0.0 for run in runs) / len(runs)

    print(
        f"| {name} | {setup} | {mean(lambda run: run.ttft_mean_us) / 1e6:.2f} "
        f"| {mean(lambda run: run.ttft_p99_us) / 1e6:.2f} | {mean(lambda run: run.tpot_mean_us) / 1e3:.1f} "
        f"| {mean(lambda run: run.tpot_p99_us) / 1e3:.1f} "
        f"| {mean(lambda run: run.output_tokens_per_gpu_second):.1f} "
        f"| {mean(lambda run: run.encoder_busy_share):.2f} | {mean(lambda run: run.language_busy_share):.2f} "
        f"| {mean(lambda run: run.language_step_share):.2f} |"
    )


def main() -> None:
    """One table in markdown."""
    print(
        "| scene | set-up | TTFT s | p99 | TPOT ms | p99 | tokens/GPU-s | encoders busy | others busy "
        "| others in a step |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, load, encoders in SCENES:
        params = ClusterParams.model_validate(load)
        print_row(name, "colocated", params)
        print_row(name, "colocated, images spread", params.with_changes(spread_images=True))
        for count in encoders:
            print_row(name, f"{count} encoders", params.with_changes(encoder_workers=count))
    print_published_small()
    print_published()


def print_published_small() -> None:
    for asked_per_s in (12, 24, 1000):
        params = ClusterParams.model_validate(PUBLISHED_SMALL | {"requests_per_s": asked_per_s})
        name = f"published, four A100, {asked_per_s} requests/s"
        print_row(name, "colocated", params)
        print_row(name, "1 encoder", params.with_changes(encoder_workers=1))
    burdened, name = params.with_changes(step_overhead_us=20_000), f"{name}, 20 ms of host time a step"
    print_row(name, "colocated", burdened)
    print_row(name, "1 encoder", burdened.with_changes(encoder_workers=1))


def print_published() -> None:
    for rate in (0.2, 0.6, 1.0, 1.2):
        name = f"published, H20, {rate} requests/s"
        four = ClusterParams.model_validate(PUBLISHED | {"requests_per_s": rate, "num_gpus": 4})
        print_row(name, "4 GPUs", four)
        print_row(name, "4 GPUs, images spread", four.with_changes(spread_images=True))
        print_row(name, "5 GPUs, 1 encoder", four.with_changes(num_gpus=5, encoder_workers=1))
        print_row(name, "6 GPUs, 2 encoders", four.with_changes(num_gpus=6, encoder_workers=2))


if __name__ == "__main__":
    main()
