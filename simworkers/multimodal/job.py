"""The multimodal lab as the catalogue lists it."""

from simworkers.jobs import FigureSpec, Job, TaskKind
from simworkers.multimodal.metrics import MultimodalMetrics
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.prediction import (
    DiagnosisPrediction,
    EncoderCachePrediction,
    EncoderWorkersPrediction,
    SecondTurnPrediction,
    WarmTurnPrediction,
)

MULTIMODAL_CACHE = Job(
    name="multimodal-cache",
    title="A picture is worth hundreds of tokens",
    summary="An engineer shows a screenshot and asks again about it. Follow the picture through preprocessing, "
    "encoder and prefix cache, find what makes the second turn as slow as the first, and size the stages.",
    params=MultimodalParams,
    metrics=MultimodalMetrics,
    simulate="simworkers.multimodal.simulate:simulate",
    draw="simworkers.multimodal.figures:draw",
    figures=(
        FigureSpec(
            "image-way",
            "The picture's way through the stages, turn by turn",
            "Move the slider to another turn. Green and blue are lit: found in a cache, or not needed because of that. "
            "Orange was computed again and names its reason; grey is new. Upload compares the file with the one of the "
            "turn before.",
        ),
        FigureSpec(
            "ttft-by-turn",
            "Where the time to the first token goes, turn by turn",
            "Mean over users, stacked by stage: upload, preprocessing, waiting, encoder, prefill. A cache that misses "
            "shows as a stage that is as high as in turn 1.",
        ),
        FigureSpec(
            "cache-occupancy",
            "What fills the caches over time",
            "KV that requests hold, KV that can be found again, and embeddings, in bytes of the accounted model; the "
            "dashed lines are what each cache holds at most.",
        ),
        FigureSpec(
            "image-tokens",
            "Tokens of one picture against its size",
            "Native resolution grows with the area up to its budget; tiles jump from grid to grid.",
        ),
        FigureSpec(
            "encoder-workers",
            "Encoder workers apart: gain and loss against the share of pictures",
            "Output tokens per GPU-second (apart ÷ colocated) and mean TTFT (colocated ÷ apart), on as many GPUs: "
            "above 1 encoder workers apart are better, below 1 they are worse.",
        ),
    ),
    tasks={
        "predict-turn-2": TaskKind(
            name="predict-turn-2",
            prepare="simworkers.multimodal.second_turn_task:prepare",
            references="simworkers.multimodal.second_turn_task:references",
            prediction=SecondTurnPrediction,
            open_parameters=(),
            prediction_metrics={
                "preprocess_again": "preprocess_again_turn2",
                "encode_again": "encode_again_turn2",
                "cached_tokens": "cached_tokens_turn2",
                "new_tokens": "new_tokens_turn2",
            },
        ),
        "diagnose": TaskKind(
            name="diagnose",
            prepare="simworkers.multimodal.diagnose_task:prepare",
            references="simworkers.multimodal.diagnose_task:references",
            prediction=DiagnosisPrediction,
            open_parameters=(),
            prediction_metrics={"cause": "fault_cause", "turn": "fault_turn", "sign": "fault_sign"},
        ),
        "warm-turn-2": TaskKind(
            name="warm-turn-2",
            prepare="simworkers.multimodal.warm_turn_task:prepare",
            prediction=WarmTurnPrediction,
            open_parameters=(
                "client",
                "identity",
                "client_id_per",
                "salt",
                "kv_blocks",
                "encoder_cache_embeddings",
            ),
            references="simworkers.multimodal.warm_turn_task:references",
            prediction_metrics={"encode_again": "encode_again_turn2", "ttft_turn2_us": "ttft_turn2_us"},
        ),
        "size-encoder-cache": TaskKind(
            name="size-encoder-cache",
            prepare="simworkers.multimodal.encoder_cache_task:prepare",
            prediction=EncoderCachePrediction,
            open_parameters=("encoder_cache_embeddings",),
            references="simworkers.multimodal.encoder_cache_task:references",
            prediction_metrics={"images_encoded": "images_encoded"},
        ),
        "choose-encoder-workers": TaskKind(
            name="choose-encoder-workers",
            prepare="simworkers.multimodal.encoder_workers_task:prepare",
            prediction=EncoderWorkersPrediction,
            open_parameters=("cluster_encoder_workers",),
            references="simworkers.multimodal.encoder_workers_task:references",
            prediction_metrics={"tokens_per_gpu_s": "cluster_tokens_per_gpu_s"},
        ),
    },
    essentials=(
        "picture",
        "own_image",
        "image_width_px",
        "image_height_px",
        "users",
        "turns",
        "client",
        "identity",
        "max_image_tokens",
        "prefix_caching",
        "kv_blocks",
        "encoder_caching",
        "gpu",
    ),
    expected_seconds=MultimodalParams.expected_seconds,
    sweep="simworkers.multimodal.sweep:sweep",
    sources=(
        "fields.py",
        "hardware.py",
        "rng.py",
        "text.py",
        "threads.py",
        "provenance.py",
        "invariants.py",
        "instances.py",
        "sweeping.py",
        "drawing.py",
        "corpora/chat.txt",
        "engine/**/*",
        "multimodal/**/*",
    ),
)
