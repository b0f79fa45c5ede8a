"""The agent lab as the catalogue lists it."""

from simworkers.agents.metrics import AgentMetrics
from simworkers.agents.params import AgentParams
from simworkers.agents.prediction import (
    CachedSharePrediction,
    CapPrediction,
    PipelinePrediction,
    RoutingPrediction,
    SurvivalPrediction,
    ThroughputPrediction,
    TiersPrediction,
)
from simworkers.agents.probe_params import ProbesArtefact
from simworkers.agents.recorded import fault_of_summary
from simworkers.agents.tasks.open_parameters import CAPS, ROUTING, SURVIVAL, THROUGHPUT, TIERS
from simworkers.jobs import FigureSpec, Job, TaskKind

AGENT_ROUTING = Job(
    name="agent-routing",
    title="An agent is a session, not a request",
    summary="An operations agent investigates why checkout fails; every turn sends the whole context again. Route its "
    "sessions, keep their KV warm in tiers, and see what each way costs.",
    params=AgentParams,
    metrics=AgentMetrics,
    simulate="simworkers.agents.simulate:simulate",
    draw="simworkers.agents.pictures.figures:draw",
    figures=(
        FigureSpec(
            "turn-tokens",
            "What each turn brings: cached, uncached and output tokens",
            "The prompt of each turn of one session: green was found in HBM, blue loaded from host memory, light blue "
            "from the shared pool, orange nowhere; purple is what came out.",
        ),
        FigureSpec(
            "hit-rate-by-policy",
            "Hit rate by policy, against a cache that has no end",
            "The same sessions under each policy. The line is what one replica with endless KV would find.",
        ),
        FigureSpec(
            "throughput-interactivity",
            "Throughput against interactivity, by policy",
            "Each point is a load. More sessions at once give more tokens a GPU-second and fewer a second to each "
            "user; both fall where caches thrash. All loads play the same sessions until the longest one ends, and "
            "GPUs that idle beside it keep the largest loads from giving more. The line is the floor.",
        ),
        FigureSpec(
            "load-by-replica",
            "Uncached tokens that each replica got, over time",
            "One row a replica: prompt tokens that no cache had, by when their request was sent, counted once, as it "
            "was first admitted. What is computed again after a preemption is not in it. A replica that stands out "
            "makes its sessions wait.",
        ),
        FigureSpec(
            "kv-residency",
            "Where KV lay over time",
            "Shares of what each tier holds: HBM that requests hold, HBM that can be found again, host memory, pool.",
        ),
        FigureSpec(
            "cost",
            "What a session costs, and what the GPUs did for it",
            "GPU-hours × price ÷ sessions, by policy; below, the run's own GPU time by what it went to.",
        ),
    ),
    tasks={
        "best-throughput": TaskKind(
            name="best-throughput",
            prepare="simworkers.agents.tasks.throughput_task:prepare",
            references="simworkers.agents.tasks.throughput_task:references",
            prediction=ThroughputPrediction,
            open_parameters=THROUGHPUT,
            prediction_metrics={
                "sessions_at_once": "search_sessions",
                "tokens_per_gpu_s": "search_tokens_per_gpu_s",
            },
            draws_from_trace=True,
        ),
        "predict-cached-share": TaskKind(
            name="predict-cached-share",
            prepare="simworkers.agents.tasks.cached_share_task:prepare",
            references="simworkers.agents.tasks.cached_share_task:references",
            prediction=CachedSharePrediction,
            open_parameters=(),
            prediction_metrics={
                "cached_tokens": "watched_cached_tokens",
                "new_tokens": "watched_new_tokens",
            },
        ),
        "tiers-within-budget": TaskKind(
            name="tiers-within-budget",
            prepare="simworkers.agents.tasks.tiers_task:prepare",
            references="simworkers.agents.tasks.tiers_task:references",
            prediction=TiersPrediction,
            open_parameters=TIERS,
            prediction_metrics={"hit_rate": "hit_rate"},
        ),
        "cap-prefills": TaskKind(
            name="cap-prefills",
            prepare="simworkers.agents.tasks.cap_prefills_task:prepare",
            references="simworkers.agents.tasks.cap_prefills_task:references",
            prediction=CapPrediction,
            open_parameters=CAPS,
            prediction_metrics={"interactivity_p10": "interactivity_p10"},
        ),
        "pipeline-or-tensor": TaskKind(
            name="pipeline-or-tensor",
            prepare="simworkers.agents.tasks.pipeline_task:prepare",
            references="simworkers.agents.tasks.pipeline_task:references",
            prediction=PipelinePrediction,
            open_parameters=(),
            prediction_metrics={"wins_ratio": "pp_wins_ratio", "loses_ratio": "pp_loses_ratio"},
            artefact=ProbesArtefact,
        ),
        "survive-a-death": TaskKind(
            name="survive-a-death",
            prepare="simworkers.agents.tasks.survival_task:prepare",
            references="simworkers.agents.tasks.survival_task:references",
            prediction=SurvivalPrediction,
            open_parameters=SURVIVAL,
            prediction_metrics={"ttft_mean_us": "ttft_mean_us", "moves": "moves"},
        ),
        "route-by-score": TaskKind(
            name="route-by-score",
            prepare="simworkers.agents.tasks.routing_task:prepare",
            references="simworkers.agents.tasks.routing_task:references",
            prediction=RoutingPrediction,
            open_parameters=ROUTING,
            prediction_metrics={"hit_rate": "hit_rate", "waited_tokens_per_s": "waited_tokens_per_s"},
        ),
    },
    essentials=(
        "trace",
        "sessions",
        "turns_percent",
        "sessions_at_once",
        "model",
        "gpu",
        "replicas",
        "tensor_parallel",
        "kv_blocks",
        "policy",
        "host_gb",
        "incident",
    ),
    internals=(
        "gpu_budget",
        "memory_offer_gb",
        "memory_budget_usd",
        "scored_as",
        "probes_rule",
        "pp_wins",
        "pp_loses",
    ),
    expected_seconds=AgentParams.expected_seconds,
    trace_fault=fault_of_summary,
    sources=(
        "fields.py",
        "hardware.py",
        "inputs.py",
        "rng.py",
        "threads.py",
        "provenance.py",
        "instances.py",
        "sweeping.py",
        "drawing.py",
        "agents/**/*",
    ),
    sweep="simworkers.agents.sweep:sweep",
)
