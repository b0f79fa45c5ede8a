"""What a run of the agent lab reports. Pydantic alone. Definitions follow the project's METRICS page.

Counts are exact; times are modelled for the accounted model and GPUs.
"""

from simworkers.fields import Row, metric

# Units of the metric by which a run is scored, on which the anchors lie.
SCORED_IN = ("scored_as", {"throughput": "tokens/s", "survival": "µs", "routing": "tokens/s"})


class TurnRow(Row):
    """One turn of a session's own agent, subagents left out."""

    session: int = metric("index", "From 1.")
    turn: int = metric("turn", "From 1.")
    replica: int = metric("index", "That served it, from 0.")
    hbm_tokens: int = metric("tokens", "Found in HBM when it was first admitted.")
    host_tokens: int = metric("tokens", "Loaded from host memory.")
    pool_tokens: int = metric("tokens", "Loaded from the shared pool.")
    new_tokens: int = metric("tokens", "Of the prompt, found nowhere.")
    output_tokens: int = metric("tokens", "That came out.")
    ttft_us: int = metric("µs", "From its sending to the first output token.")


class LoadRow(Row):
    """Work that one replica got in a part of the time."""

    time_s: float = metric("s", "Start of the part.")
    replica: int = metric("index", "From 0.")
    uncached_tokens: int = metric(
        "tokens", "Prompt tokens found nowhere, of requests sent in this part, counted once a request."
    )


class ResidencyRow(Row):
    """Where KV lay at one moment, all replicas together; shares of what each tier holds at most."""

    time_s: float = metric("s", "Modelled clock.")
    held_share: float = metric("fraction", "HBM blocks that requests hold.")
    cached_share: float = metric("fraction", "HBM blocks that nobody holds and that can be found again.")
    host_share: float = metric("fraction", "Of host memory; 0 where there is none.")
    pool_share: float = metric("fraction", "Of the pool; 0 where there is none.")


class PolicyRow(Row):
    """The same sessions under one policy."""

    policy: str = metric("", "Its name.")
    hit_rate: float = metric("fraction", "Cached ÷ prompt tokens, all tiers; a refused prompt found none.")
    load_imbalance: float = metric("ratio", "max/mean over replicas of uncached input tokens.")
    ttft_p90_us: int = metric("µs", "90th percentile of TTFT, nearest rank.")
    interactivity_p10: float = metric("tokens/s", "10th percentile of interactivity, nearest rank.")
    tokens_per_gpu_s: float = metric(
        "tokens/s", "Output tokens per GPU-second.", label="Output tokens per GPU-second"
    )
    usd_per_million: float = metric(
        "USD", "GPU-hours × price for a million output tokens.", label="Price of a million output tokens"
    )
    usd_per_session: float = metric("USD", "GPU-hours × price ÷ sessions.", label="Price of a session")


class CurveRow(Row):
    """One policy at one load."""

    policy: str = metric("", "Its name.")
    sessions_at_once: int = metric("sessions", "The load.")
    interactivity_p10: float = metric("tokens/s", "10th percentile of interactivity, nearest rank.")
    tokens_per_gpu_s: float = metric(
        "tokens/s", "Output tokens per GPU-second.", label="Output tokens per GPU-second"
    )
    completed_share: float = metric("fraction", "Of all requests, those that ended before the horizon.")


class AgentMetrics(Row):
    """Scalars first, then the rows that the figures draw."""

    sessions: int = metric("sessions", "Played.")
    requests: int = metric("requests", "Of all of them, subagents' included.")
    completed_requests: int = metric("requests", "That ended before the horizon.")
    completed_share: float = metric("fraction", "completed_requests ÷ requests.")
    refused_requests: int = metric("requests", "Larger than a replica's whole cache.")
    input_tokens: int = metric(
        "tokens", "Of all requests that were admitted; those of refused ones stand apart."
    )
    refused_tokens: int = metric("tokens", "Of prompts larger than the cache, which were refused.")
    hbm_tokens: int = metric("tokens", "Found in HBM, counted once a request.")
    host_tokens: int = metric("tokens", "Loaded from host memory.")
    pool_tokens: int = metric("tokens", "Loaded from the shared pool.")
    uncached_tokens: int = metric("tokens", "Input tokens found nowhere, counted once a request.")
    output_tokens: int = metric("tokens", "Of completed requests.")
    hit_rate: float = metric(
        "fraction",
        "Leading cached tokens of any tier ÷ (input_tokens + refused_tokens): a refused prompt found none.",
    )
    hbm_hit_rate: float = metric("fraction", "The same, HBM alone.")
    hit_rate_ceiling: float = metric(
        "fraction",
        "The same with one replica whose cache has no end, over the whole trace in its own order. No run hits more "
        "where each agent has ids of its own and nothing is cut; else who comes first decides.",
    )
    load_imbalance: float = metric(
        "ratio", "max/mean over replicas of uncached input tokens; 1 where there are none."
    )
    ttft_mean_us: float = metric(
        "µs",
        "Sending → first output token, mean over all requests; of one that was refused or never ends, the horizon.",
    )
    ttft_p50_us: int = metric("µs", "Median, nearest rank.")
    ttft_p90_us: int = metric("µs", "90th percentile, nearest rank.")
    ttft_p99_us: int = metric("µs", "99th percentile, nearest rank.")
    tpot_mean_us: float = metric(
        "µs", "(last − first output) ÷ (outputs − 1), mean over completed requests with two or more."
    )
    tpot_p99_us: float = metric("µs", "Its 99th percentile, nearest rank.")
    interactivity_p10: float = metric(
        "tokens/s",
        "10th percentile (nearest rank) of 1000 ÷ mean ITL in ms, over completed requests: nine of ten are faster.",
    )
    keeps_floor: int = metric(
        "0 or 1",
        "1 where interactivity_p10 reaches the floor. That is of completed requests alone: completed_share tells how "
        "many were lost.",
    )
    window_s: float = metric(
        "s",
        "From the first sending to the last end, or the horizon. Sessions are a fixed set, so that it ends with the "
        "longest one, and GPUs that idle beside that one count.",
    )
    gpus: int = metric("GPUs", "All replicas', idle and dead ones included.")
    tokens_per_gpu_s: float = metric(
        "tokens/s",
        "Output tokens of completed requests ÷ (window × GPUs).",
        label="Output tokens per GPU-second",
    )
    goal_tokens_per_gpu_s: float = metric(
        "tokens/s",
        "The same where the floor is kept and 99% of the requests completed; else 0.",
        label="Output tokens per GPU-second, goal met",
    )
    input_tokens_per_gpu_s: float = metric(
        "tokens/s",
        "Input tokens, cached or not; never added to outputs.",
        label="Input tokens per GPU-second",
    )
    waited_tokens_per_s: float = metric(
        "tokens/s",
        "Output tokens ÷ seconds from sending to the last token, over all that were not refused.",
        label="Output tokens per second of waiting",
    )
    anchor_low: float = metric(
        "",
        "What the task's metric would be with the way of serving that earns nothing; 0: not scored.",
        label="Anchor that earns nothing",
        unit_by=SCORED_IN,
        part="anchors",
    )
    anchor_high: float = metric(
        "",
        "With the computed bound, which earns everything.",
        label="Anchor that earns everything",
        unit_by=SCORED_IN,
        part="anchors",
    )
    cost_usd: float = metric("USD", "GPU-hours × price.", label="Cost")
    usd_per_million: float = metric(
        "USD",
        "Cost ÷ output tokens; 0 where there are none. The input that came with them is in it.",
        label="Price of a million output tokens",
    )
    usd_per_session: float = metric(
        "USD",
        "Cost ÷ sessions, whatever of them was lost; 0 where the trace's rows have none.",
        label="Price of a session",
        zero="no sessions",
        part="sessions",
    )
    kv_blocks: int = metric("blocks", "Of each replica.")
    kv_bytes: int = metric("bytes", "Of each replica; what several GPUs hold alike counts once.")
    peak_held_share: float = metric("fraction", "Most KV that requests of one replica held at once.")
    preemptions: int = metric("count", "Requests that started over for lack of KV blocks.")
    retries: int = metric("count", "Requests that started over because their replica died.")
    moves: int = metric("count", "Times that a session went to another replica than before.")
    sessions_on_busiest: int = metric(
        "sessions",
        "Sessions that one replica served, wholly or in part; the most.",
        label="Sessions on the busiest replica",
    )
    write_back_share: float = metric(
        "fraction", "Time that write-backs to host memory would keep its link busy.", part="memory below HBM"
    )
    pool_write_share: float = metric(
        "fraction", "Time that stores to the pool would keep its link busy.", part="memory below HBM"
    )
    search_sessions: int = metric(
        "sessions",
        "Most sessions at once that keep the floor with none below them that breaks it; 0: none, or no search. Where "
        "all sessions keep it, more might, and this is a lower bound.",
        part="search",
        label="Searched load",
    )
    search_tokens_per_gpu_s: float = metric(
        "tokens/s",
        "Output tokens per GPU-second at that load.",
        part="search",
        label="Output tokens per GPU-second, searched",
    )
    search_round_robin_tokens_per_gpu_s: float = metric(
        "tokens/s",
        "The same search under round robin.",
        part="search",
        label="Output tokens per GPU-second, searched under round robin",
    )
    search_bound_tokens_per_gpu_s: float = metric(
        "tokens/s",
        "The same search with KV that never runs out and every session where it was: nothing computed twice.",
        part="search",
        label="Output tokens per GPU-second, searched with endless KV",
    )
    memory_usd: float = metric(
        "USD",
        "Price of all host memory and of the pool.",
        part="memory below HBM",
        label="Price of memory below HBM",
    )
    within_memory_budget: int = metric(
        "0 or 1",
        "1 where that is no more than the budget, or there is none.",
        part="memory below HBM",
        otherwise=1,
    )
    tiers_runner_up_ttft_us: float = metric(
        "µs",
        "Mean TTFT of the same sessions, the second best of buying nothing, host memory alone or the pool alone; 0 "
        "without comparison.",
        part="tiers",
        label="TTFT with the second best tier",
    )
    tiers_best_ttft_us: float = metric(
        "µs",
        "The same, the best way to spend the budget in halves.",
        part="tiers",
        label="TTFT with the best tiers",
    )
    caps_careful_ttft_us: float = metric(
        "µs",
        "Mean TTFT of the same sessions under a prefill cap of 64 tokens and the default token budget; 0 without "
        "comparison.",
        part="caps",
        label="TTFT under a prefill cap of 64",
    )
    caps_best_ttft_us: float = metric(
        "µs",
        "The least under any cap that keeps the floor with every request completed; 0: there is none.",
        part="caps",
        label="TTFT under the best prefill cap",
    )
    pp_wins_ratio: float = metric(
        "ratio",
        "Output tokens per GPU-second in the first probe, pipeline ÷ tensor; 1 without it.",
        part="probes",
        otherwise=1,
        label="Pipeline ÷ tensor, first probe",
    )
    pp_loses_ratio: float = metric(
        "ratio",
        "The same in the second probe.",
        part="probes",
        otherwise=1,
        label="Pipeline ÷ tensor, second probe",
    )
    probes_completed_share: float = metric(
        "fraction",
        "Requests that completed, the least over both probes and both ways; 0 without probes.",
        part="probes",
    )
    watched_input_tokens: int = metric("tokens", "Of the watched turn.")
    watched_cached_tokens: int = metric("tokens", "Found for it, all tiers.")
    watched_new_tokens: int = metric("tokens", "watched_input_tokens − watched_cached_tokens.")
    watched_cached_share: float = metric("fraction", "watched_cached_tokens ÷ watched_input_tokens.")
    share_hbm_bandwidth: float = metric(
        "fraction", "Of the time that requests take, from sending to end: steps bound by HBM bandwidth."
    )
    share_flops: float = metric("fraction", "Of the same time: steps bound by FLOPs.")
    share_links: float = metric(
        "fraction", "Of the same time: links between GPUs, and loading KV from other tiers."
    )
    share_host: float = metric(
        "fraction", "Of the same time: host time between steps.", label="Share host time"
    )
    share_kv_capacity: float = metric(
        "fraction", "Of the same time: waiting for KV blocks, not admitted or preempted."
    )
    share_queue: float = metric(
        "fraction",
        "Of the same time: waiting for a place in a step, or for a replica.",
        label="Share queueing",
    )
    busy_share: float = metric("fraction", "GPU time in steps ÷ all GPU time; the rest is idle.")

    turns: list[TurnRow] = metric("", "Of the first sessions the first turns.")
    loads: list[LoadRow] = metric("", "Work by replica over time.")
    residency: list[ResidencyRow] = metric("", "Where KV lay over time; thinned.")
    policies: list[PolicyRow] = metric(
        "", "The same sessions under other policies; empty without comparison."
    )
    curves: list[CurveRow] = metric(
        "", "Throughput against interactivity, by policy and load; empty without comparison."
    )
    gpu_seconds: dict[str, float] = metric("s", "GPU time by what it went to; idle and dead time is idle.")
