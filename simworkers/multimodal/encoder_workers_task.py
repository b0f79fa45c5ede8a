"""The task `choose-encoder-workers`: how many GPUs of a cluster should only encode, for a drawn load.

Some loads gain from the right number of encoder workers alone, others are served best where every GPU does everything:
pictures are few, GPUs spread them, or a copy of the language model needs one GPU only. The cluster of the instance is
set badly today, so that leaving it earns nothing, and dividing GPUs like requests, with and without pictures, does not
answer it either, since neither says what a picture costs.
"""

from typing import Any

from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.multimodal.cluster import cluster_params
from simworkers.multimodal.cluster_params import ClusterParams
from simworkers.multimodal.cluster_workers import Prices
from simworkers.multimodal.disaggregation import choose_encoder_workers
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.scenes import one_of
from simworkers.multimodal.stage_cost import decode_step, prefill
from simworkers.rng import Stream

# Best number → (GPUs a copy of the language model, whether colocated GPUs of a group spread a step's pictures). Only a
# group that lets its GPUs wait for one encode gains from encoder workers.
GROUPS = {0: ((2, True), (2, True), (1, False)), 2: ((2, False),), 4: ((2, False),)}
SIZES_PX = ((640, 640), (1280, 800), (1600, 900))
PRACTICE_SEEDS = (1, 2)
DRAWS = 400
LEAST_DISTANCE = 1.2  # best ÷ mean over all numbers of encoder workers
EXPERT_REACHES = 0.85  # of the way from that mean to the best
MISLED_REACHES = 0.5  # at most
RUNNER_UP_REACHES = 0.75  # at most, so that no number does well everywhere
DECODING = 64  # requests, at most, for the price of a decode step that is shown


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves."""
    wanted = one_of(Stream(seed, "choose-encoder-workers"), tuple(GROUPS))
    return draw_until_it_serves(
        seed, "choose-encoder-workers", lambda stream: _draw(stream, wanted, progress), DRAWS
    )


def _draw(stream: Stream, wanted: int, progress: Progress) -> PreparedInstance | None:
    """wanted: the number of encoder workers that is to be best."""
    progress(0, 1)
    params = _draw_params(stream, wanted)
    seed = stream.integer(SEEDS)
    rates = output_rates(cluster_params(params), seed)
    mean, best = sum(rates.values()) / len(rates), max(rates.values())
    if best < LEAST_DISTANCE * mean or rates[wanted] != best:
        return None

    def reached(count: int) -> float:
        return (rates[count] - mean) / (best - mean)

    if max(reached(count) for count in rates if count != wanted) > RUNNER_UP_REACHES:
        return None
    poor = [count for count, rate in rates.items() if rate <= mean]
    today = MultimodalParams.model_validate(
        params.model_dump() | {"cluster_encoder_workers": one_of(stream, poor)}
    )
    instance = PreparedInstance(params=today.model_dump(), visible=_describe(today), seed=seed)
    if reached(_as_requests_divide(instance.visible)) > MISLED_REACHES:
        return None
    return instance if reached(_best_in_practice(instance.visible)) >= EXPERT_REACHES else None


def _draw_params(stream: Stream, wanted: int) -> MultimodalParams:
    group, is_spread = one_of(stream, GROUPS[wanted])
    width, height = one_of(stream, SIZES_PX)
    values: dict[str, Any] = {
        # The engine's own part of the run is as small as it can be: nothing of it is read.
        "users": 1,
        "turns": 1,
        "answer_tokens": 2,
        "max_image_tokens": 16,
        "image_width_px": width,
        "image_height_px": height,
        "client_mbytes_per_s": 125.0,
        "model": one_of(stream, ("internvl2-26b", "qwen2.5-vl-7b", "qwen2-vl-7b", "qwen3-vl-4b")),
        "gpu": one_of(stream, ("h100", "h200", "b200", "a100", "h20")),
        "cluster_gpus": 8,
        "cluster_tensor_parallel": group,
        "cluster_spread_images": is_spread,
        "cluster_encoder_workers": 0,
        "cluster_image_percent": one_of(stream, (5, 10, 20, 30, 50, 80, 100)),
        "cluster_images": one_of(stream, (1, 2, 4, 6, 8)),
        "cluster_requests_per_s": float(one_of(stream, (40, 80, 120, 200))),
    }
    return MultimodalParams.model_validate(values)


def output_rates(scene: ClusterParams, seed: int) -> dict[int, float]:
    """Encoder workers → output tokens per GPU-second."""
    found = choose_encoder_workers(scene, seed)
    return {count: metrics.output_tokens_per_gpu_second for count, metrics in found.items()}


def _describe(params: MultimodalParams) -> dict[str, Any]:
    """The load and its prices. A decode step holds requests of the mix, each in the middle of its answer."""
    scene = cluster_params(params)
    prices = Prices(scene)
    text = (scene.text_tokens_min + scene.text_tokens_max) // 2
    output = (scene.output_tokens_min + scene.output_tokens_max) // 2
    pictures = scene.images_min * prices.image_tokens
    mean_prompt = text + pictures * scene.image_share_percent // 100
    # A colocated group has the least room, and a request reserves all that it will ever hold.
    room = prices.kv_room_tokens(scene.with_changes(encoder_workers=0))
    requests = min(DECODING, room // (mean_prompt + output))
    context = mean_prompt + output // 2
    model, placement = prices.model.decoder, prices.placement
    return scene.model_dump(exclude={"encoder_workers"}) | {
        "today_encoder_workers": params.cluster_encoder_workers,
        "image_tokens": prices.image_tokens,
        "encode_us_per_image": prices.encode_us(1),
        "encode_us_of_a_request": prices.encode_us(scene.images_min),
        "prefill_us_with_pictures": prefill(model, placement, text + pictures).us,
        "prefill_us_without_pictures": prefill(model, placement, text).us,
        "kv_room_tokens": room,
        "decode_step_requests": requests,
        "decode_step_context_tokens": context,
        "decode_step_us": decode_step(model, placement, [context] * requests).us,
        "output_tokens_mean": output,
    }


def _as_requests_divide(visible: dict[str, Any]) -> int:
    """As large a share of the GPUs as requests bring pictures, in whole groups; at least one group serves language."""
    group, gpus = visible["tensor_parallel"], visible["num_gpus"]
    wanted = round(gpus * visible["image_share_percent"] / 100 / group) * group
    return int(min(wanted, gpus - group))


def _scene(visible: dict[str, Any]) -> ClusterParams:
    """The load that is shown, colocated."""
    return ClusterParams.model_validate(
        {name: visible[name] for name in ClusterParams.model_fields if name in visible}
    )


def _best_in_practice(visible: dict[str, Any]) -> int:
    """What free runs of the same load with other seeds find."""
    runs = [output_rates(_scene(visible), seed) for seed in PRACTICE_SEEDS]
    return max(runs[0], key=lambda count: sum(run[count] for run in runs))


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """What kinds of learner hand in, each from the visible part alone.

    naive: leaves the cluster as it is. misconception: divides GPUs like requests, with and without pictures. expert:
    plays the same load with other seeds for every number, and takes the best.
    """
    visible = prepared.visible
    expert = _best_in_practice(visible)
    rate = round(output_rates(_scene(visible), PRACTICE_SEEDS[0])[expert], 1)
    misled = _as_requests_divide(visible)
    return {
        who: Submission(params=params, prediction={"tokens_per_gpu_s": rate})
        for who, params in (
            ("naive", {}),
            ("misconception", {"cluster_encoder_workers": misled}),
            ("expert", {"cluster_encoder_workers": expert}),
        )
    }
