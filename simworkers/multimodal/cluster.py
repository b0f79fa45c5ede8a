"""The cluster question of a run: are encoder workers worth their GPUs at this load?"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from simworkers.jobs import InvalidParameter
from simworkers.multimodal.cluster_metrics import ClusterMetrics
from simworkers.multimodal.cluster_params import ClusterParams
from simworkers.multimodal.cluster_workers import Prices
from simworkers.multimodal.disaggregation import choose_encoder_workers, simulate_cluster
from simworkers.multimodal.metrics import ClusterRow
from simworkers.multimodal.params import MultimodalParams

IMAGE_PERCENTS = (0, 20, 40, 60, 80, 100)
CLUSTER_PARTS = len(IMAGE_PERCENTS) + 1
NUM_REQUESTS = 120
HORIZON_S = 3600  # at the lowest rate the last of NUM_REQUESTS is sent after about 1,200 s


@dataclass(frozen=True)
class ClusterResults:
    """by_workers: encoder workers → what they give at the run's load. by_share: image percent → (colocated, split)."""

    by_workers: dict[int, ClusterMetrics]
    by_share: dict[int, tuple[ClusterMetrics, ClusterMetrics]]


def cluster_params(params: MultimodalParams) -> ClusterParams:
    """The run's cluster as the simulation of clusters takes it."""
    return ClusterParams(
        model=params.model,
        gpu=params.gpu,
        num_gpus=params.cluster_gpus,
        encoder_workers=params.cluster_encoder_workers,
        tensor_parallel=params.cluster_tensor_parallel,
        spread_images=params.cluster_spread_images,
        client_bytes_per_s=params.client_mbytes_per_s * 1e6,
        requests_per_s=params.cluster_requests_per_s,
        num_requests=NUM_REQUESTS,
        horizon_s=HORIZON_S,
        image_share_percent=params.cluster_image_percent,
        images_min=params.cluster_images,
        images_max=params.cluster_images,
        image_width_px=params.image_width_px,
        image_height_px=params.image_height_px,
    )


def check_cluster(params: MultimodalParams) -> None:
    """InvalidParameter naming cluster_images where a copy of the model has no KV room for the largest request.

    Colocated has the least room, and every comparison contains it. Called before anything is simulated.
    """
    scene = cluster_params(params).with_changes(encoder_workers=0)
    try:
        Prices(scene).kv_room_tokens(scene)
    except ValueError as error:
        size = f"{params.image_width_px} × {params.image_height_px} px"
        raise InvalidParameter(
            f"cluster_images: {params.cluster_images} pictures of {size} do not fit; {error}; "
            "take fewer or smaller pictures, or cluster_tensor_parallel = 2"
        ) from error


def compare_clusters(params: MultimodalParams, seed: int, tick: Callable[[int], None]) -> ClusterResults:
    """Every number of encoder workers at this load, and the chosen number at every share of pictures.

    tick: told how many of CLUSTER_PARTS are done.
    """
    scene = cluster_params(params)
    by_workers = choose_encoder_workers(scene, seed)
    tick(1)
    by_share = {}
    for done, percent in enumerate(IMAGE_PERCENTS, start=2):
        split = scene.with_changes(image_share_percent=percent)
        colocated = split.with_changes(encoder_workers=0)
        by_share[percent] = (simulate_cluster(colocated, seed), simulate_cluster(split, seed))
        tick(done)
    return ClusterResults(by_workers, by_share)


def cluster_scalars(params: MultimodalParams, cluster: ClusterResults) -> dict[str, float]:
    chosen, colocated = cluster.by_workers[params.cluster_encoder_workers], cluster.by_workers[0]
    rates = {count: found.output_tokens_per_gpu_second for count, found in cluster.by_workers.items()}
    best = max(rates.values())
    return {
        "cluster_tokens_per_gpu_s": chosen.output_tokens_per_gpu_second,
        "cluster_colocated_tokens_per_gpu_s": colocated.output_tokens_per_gpu_second,
        "cluster_best_tokens_per_gpu_s": best,
        "cluster_worst_tokens_per_gpu_s": min(rates.values()),
        "cluster_mean_tokens_per_gpu_s": fmean(rates.values()),
        "cluster_best_encoder_workers": min(count for count, rate in rates.items() if rate == best),
        "cluster_ttft_us": chosen.ttft_mean_us,
        "cluster_colocated_ttft_us": colocated.ttft_mean_us,
    }


def cluster_rows(cluster: ClusterResults) -> list[ClusterRow]:
    return [
        ClusterRow(
            image_percent=percent,
            colocated_tokens_per_gpu_s=colocated.output_tokens_per_gpu_second,
            split_tokens_per_gpu_s=split.output_tokens_per_gpu_second,
            colocated_ttft_us=colocated.ttft_mean_us,
            split_ttft_us=split.ttft_mean_us,
        )
        for percent, (colocated, split) in cluster.by_share.items()
    ]
