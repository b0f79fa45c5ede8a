"""What a simulated cluster reports: integers in microseconds, and shares of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from simworkers.multimodal.cluster_params import ClusterParams
from simworkers.multimodal.cluster_workers import EncoderWorker, Job, LanguageWorker

US_PER_S = 1_000_000
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class ClusterMetrics:
    """Quantiles by nearest rank. None where no request could have the figure. A request counts if it was sent at all.

    window: from the first request sent to the last token, or to the horizon where a request is unfinished.
    """

    requests: int
    unfinished: int
    window_us: int
    horizon_us: int
    ttft_mean_us: float
    ttft_p50_us: int
    ttft_p99_us: int
    tpot_mean_us: float | None
    tpot_p99_us: float | None
    output_tokens: int  # of completed requests
    output_tokens_per_gpu_second: float
    encoder_busy_share: float | None  # of the encoder workers' time, executing; host time is not
    language_busy_share: (
        float  # of the language workers' GPU time, executing; a GPU that waits for an encode is not
    )
    language_step_share: float  # of the language workers' time, a step running, waits and host time included
    encode_share: float  # of all GPU time, executing, wherever it happened; so are the next three
    hbm_share: float
    flops_share: float
    links_share: float
    kv_blocked_share: float  # of the language workers' time, the next request waiting for KV room
    encoder_wait_mean_us: float | None  # of an image at an encoder worker
    queue_wait_mean_us: float | None  # of a request at a language worker

    @property
    def idle_share(self) -> float:
        """Of all GPU time: executing nothing; host time, and waiting for another GPU's encode, count here."""
        return 1.0 - self.encode_share - self.hbm_share - self.flops_share - self.links_share


def measure(
    params: ClusterParams,
    jobs: Sequence[Job],
    language: Sequence[LanguageWorker],
    encoders: Sequence[EncoderWorker],
) -> ClusterMetrics:
    """Sum up a cluster that has run. ValueError naming horizon_s where it ended before the first request was sent."""
    horizon_us = params.horizon_s * US_PER_S
    jobs = [job for job in jobs if job.arrival.sent_us <= horizon_us]
    if not jobs:
        raise ValueError(f"horizon_s: no request was sent within {params.horizon_s} s")
    finished = [job for job in jobs if job.finished_us >= 0]
    end_us = horizon_us if len(finished) < len(jobs) else max(job.finished_us for job in jobs)
    window_us = max(1, end_us - min(job.arrival.sent_us for job in jobs))
    ttft_us = sorted(
        job.first_token_us - job.arrival.sent_us if job.finished_us >= 0 else horizon_us for job in jobs
    )
    tpot_us = sorted(
        (job.finished_us - job.first_token_us) / (job.arrival.output_tokens - 1)
        for job in finished
        if job.arrival.output_tokens > 1
    )
    outputs = sum(job.arrival.output_tokens for job in finished)
    encoder_us = sum(worker.executing_us for worker in encoders)
    return ClusterMetrics(
        requests=len(jobs),
        unfinished=len(jobs) - len(finished),
        window_us=window_us,
        horizon_us=horizon_us,
        ttft_mean_us=sum(ttft_us) / len(ttft_us),
        ttft_p50_us=nearest_rank(ttft_us, 50),
        ttft_p99_us=nearest_rank(ttft_us, 99),
        tpot_mean_us=_mean(tpot_us),
        tpot_p99_us=nearest_rank(tpot_us, 99) if tpot_us else None,
        output_tokens=outputs,
        output_tokens_per_gpu_second=outputs * US_PER_S / (window_us * params.num_gpus),
        encoder_wait_mean_us=_mean([wait for worker in encoders for wait in worker.waits_us]),
        queue_wait_mean_us=_mean([job.admitted_us - job.queued_us for job in jobs if job.admitted_us >= 0]),
        encoder_busy_share=encoder_us / (window_us * len(encoders)) if encoders else None,
        **_shares(params, language, encoder_us, window_us),
    )


def nearest_rank(ordered: Sequence[Number], percent: int) -> Number:
    """The smallest value that at least percent of all do not exceed."""
    return ordered[-(-percent * len(ordered) // 100) - 1]


def _shares(
    params: ClusterParams,
    language: Sequence[LanguageWorker],
    encoder_us: int,
    window_us: int,
) -> dict[str, float]:
    times = [worker.times for worker in language]
    ranks, all_us = params.tensor_parallel, window_us * params.num_gpus
    language_us = window_us * len(language)
    return {
        "language_busy_share": sum(time.executing_gpu_us(ranks) for time in times) / (language_us * ranks),
        "language_step_share": sum(time.steps_us for time in times) / language_us,
        "encode_share": (sum(time.encode_gpu_us for time in times) + encoder_us) / all_us,
        "hbm_share": sum(time.hbm_us for time in times) * ranks / all_us,
        "flops_share": sum(time.flops_us for time in times) * ranks / all_us,
        "links_share": sum(time.links_us for time in times) * ranks / all_us,
        "kv_blocked_share": sum(time.kv_blocked_us for time in times) / language_us,
    }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
