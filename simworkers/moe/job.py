"""The MoE lab as the catalogue lists it."""

from simworkers.jobs import FigureSpec, Job, TaskKind
from simworkers.moe.handed_in import PlacementArtefact
from simworkers.moe.metrics import MoeMetrics
from simworkers.moe.params import MoeParams
from simworkers.moe.prediction import BalancePrediction, BreakEvenPrediction, PlacementPrediction

MOE_EPLB = Job(
    name="moe-eplb",
    title="Send tokens to experts",
    summary="Real text is routed to experts on several GPUs; one GPU becomes the straggler that all others "
    "wait for. Copy busy experts, place them anew, and see what balance costs in memory.",
    params=MoeParams,
    metrics=MoeMetrics,
    simulate="simworkers.moe.simulate:simulate",
    draw="simworkers.moe.figures:draw",
    figures=(
        FigureSpec(
            "gpu-tokens",
            "Tokens that each GPU receives, before and after balancing",
            "Token copies per GPU in one layer, over all measured steps. A red outline and ▼ mark the "
            "straggler; the dashed line is the mean, which no placement can move.",
        ),
        FigureSpec(
            "step-time",
            "Where a step's time goes on each GPU",
            "Modelled time of one step, split into expert compute, dispatch and combine over the links, and "
            "waiting at the barrier for the slowest GPU of each layer.",
        ),
        FigureSpec(
            "hbm-ledger",
            "What fills each GPU's memory",
            "HBM of each GPU over all MoE layers of the accounted model. Extra copies of experts take the "
            "room in which KV could live.",
        ),
        FigureSpec(
            "what-binds",
            "What binds the modelled time",
            "Share of all GPU time bound by each resource, before and after balancing. The shares of a row "
            "add up to one.",
        ),
        FigureSpec(
            "imbalance",
            "Imbalance over the steps",
            "Tokens of the busiest GPU ÷ mean, averaged over layers. The dotted rule is the sampling floor, "
            "what chance alone leaves; triangles mark rebalances.",
        ),
    ),
    tasks={
        "balance-hbm": TaskKind(
            name="balance-hbm",
            prepare="simworkers.moe.balance_task:prepare",
            prediction=BalancePrediction,
            open_parameters=(
                "eplb",
                "eplb_policy",
                "redundant_slots_per_gpu",
                "window_steps",
                "interval_steps",
            ),
            references="simworkers.moe.balance_task:references",
            prediction_metrics={
                "straggler_gpu": "straggler_gpu_before",
                "max_over_mean": "max_over_mean_before_mean",
            },
        ),
        "predict-straggler": TaskKind(
            name="predict-straggler",
            prepare="simworkers.moe.straggler_task:prepare",
            prediction=BalancePrediction,
            open_parameters=(),
            references="simworkers.moe.straggler_task:references",
            prediction_metrics={
                "straggler_gpu": "straggler_gpu_before",
                "max_over_mean": "max_over_mean_before_mean",
            },
        ),
        "place-it": TaskKind(
            name="place-it",
            prepare="simworkers.moe.placing_task:prepare",
            prediction=PlacementPrediction,
            open_parameters=(),
            references="simworkers.moe.placing_task:references",
            prediction_metrics={"max_over_mean": "max_over_mean_mean"},
            artefact=PlacementArtefact,
        ),
        "when-eplb-pays": TaskKind(
            name="when-eplb-pays",
            prepare="simworkers.moe.break_even_task:prepare",
            prediction=BreakEvenPrediction,
            open_parameters=(),
            references="simworkers.moe.break_even_task:references",
            prediction_metrics={"break_even_tokens": "break_even_tokens"},
        ),
    },
    essentials=(
        "model_profile",
        "gpu_profile",
        "num_gpus",
        "num_experts",
        "top_k",
        "num_layers",
        "skew_domain",
        "skew_percent",
        "tokens_per_step",
        "num_steps",
        "eplb",
        "redundant_slots_per_gpu",
    ),
    expected_seconds=MoeParams.expected_seconds,
    sweep="simworkers.moe.sweep:sweep",
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
        "corpora/*.txt",
        "moe/**/*",
    ),
)
