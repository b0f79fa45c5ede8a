"""What a run of the MoE lab reports. Pydantic alone. Definitions follow the project's METRICS page.

`_before` is the same traffic under contiguous placement without copies; the bare name is the chosen setting.
With EPLB off both are the same placement and so the same numbers.
"""

from simworkers.fields import Row, metric


class MoeMetrics(Row):
    """Scalars first, then the arrays that the figures draw.

    L layers, E experts, G GPUs, S slots, N steps.
    """

    max_over_mean_before_mean: float = metric(
        "ratio", "Tokens of the busiest GPU ÷ mean, mean over (step, layer), contiguous."
    )
    max_over_mean_before_max: float = metric("ratio", "The same, largest (step, layer), contiguous.")
    max_over_mean_mean: float = metric(
        "ratio", "Tokens of the busiest GPU ÷ mean, mean over (step, layer), chosen setting."
    )
    max_over_mean_max: float = metric("ratio", "The same, largest (step, layer), chosen setting.")
    sampling_floor: float = metric(
        "ratio",
        "Mean max/mean of 1,000 seeded draws of tokens × top_k over equally likely GPUs: what chance alone "
        "leaves.",
    )
    node_bound: float = metric(
        "ratio",
        "Best max/mean over nodes while whole groups stay in one node, on the measured load; mean over "
        "layers.",
    )
    step_node_bound: float = metric(
        "ratio",
        "What no placement that keeps groups whole and stays for all measured steps can beat: max/mean over nodes, "
        "mean over (step, layer), with the best split of the groups over nodes.",
    )
    max_over_mean_reference_mean: float = metric(
        "ratio",
        "Max/mean, mean over (step, layer), that the balancer itself reaches with these slots, window and interval, "
        "EPLB on and no placement handed in.",
    )
    max_over_mean_saving_mean: float = metric(
        "ratio",
        "The same with one redundant slot a GPU fewer than the HBM budget allows, planned from up to 64 recorded "
        "steps and renewed every 4.",
    )
    imbalance_removed_share: float = metric(
        "fraction",
        "(contiguous − reached) ÷ (contiguous − sampling floor) of the mean max/mean; below 0 when made "
        "worse, "
        "0 where contiguous is not above the floor.",
    )
    balancedness_sum_before: float = metric("fraction", "Σ mean ÷ Σ max over (step, layer), contiguous.")
    balancedness_sum: float = metric("fraction", "Σ mean ÷ Σ max over (step, layer), chosen setting.")
    balancedness_mean_before: float = metric(
        "fraction", "Mean of (mean ÷ max) over (step, layer), contiguous."
    )
    balancedness_mean: float = metric("fraction", "Mean of (mean ÷ max) over (step, layer), chosen setting.")
    straggler_gpu_before: int = metric(
        "GPU index",
        "GPU with the most tokens over all measured steps and layers, contiguous; the lowest index wins a "
        "tie.",
    )
    straggler_gpu: int = metric("GPU index", "The same under the chosen setting.")
    step_time_before_us: float = metric(
        "µs", "Modelled MoE time of a step: Σ over layers of the slowest GPU; mean, contiguous."
    )
    step_time_us: float = metric("µs", "The same under the chosen setting.")
    speedup: float = metric("ratio", "step_time_before_us ÷ step_time_us.")
    break_even_tokens: int = metric(
        "tokens",
        "Least step size from which on, up to 65,536 tokens, every step is shorter with EPLB than contiguous, by the "
        "cost model on the measured expert shares and their own plan; 0 where there is none.",
    )
    barrier_wait_before_us: float = metric(
        "GPU-µs", "Σ (slowest − own) over GPUs and layers of a step; mean, contiguous."
    )
    barrier_wait_us: float = metric("GPU-µs", "The same under the chosen setting.")
    served_tokens_per_second: float = metric(
        "tokens/s",
        "Tokens of a step ÷ its modelled MoE time, stretched by demand ÷ room where the KV cache lacks room.",
    )
    served_tokens_per_second_before: float = metric("tokens/s", "The same, contiguous.")
    rebalances: int = metric("count", "Placements computed, the one at the end of the warm-up included.")
    moved_slots: int = metric(
        "slots", "Slots, over simulated layers, whose new expert came from another GPU."
    )
    moved_bytes: int = metric("bytes", "moved_slots × bytes of one accounted expert.")
    first_moved_share: float = metric(
        "fraction", "moved slots ÷ slots in the first rebalance; 0 without one."
    )
    move_time_us: float = metric(
        "µs", "Moved bytes ÷ link of the GPU that receives most, summed over rebalances; outside step time."
    )
    routed_copies: int = metric(
        "token copies", "tokens × top_k × layers × measured steps: what the GPUs received together."
    )
    expert_bytes: int = metric("bytes", "One accounted expert of one layer.")
    extra_hbm_bytes: int = metric(
        "bytes", "Extra slots of all GPUs × MoE layers of the model profile × expert_bytes."
    )
    hbm_budget_bytes: int = metric("bytes", "What the extra slots may take.")
    within_budget: int = metric("0 or 1", "1 where extra_hbm_bytes ≤ hbm_budget_bytes.")
    kv_room_bytes_per_gpu: int = metric(
        "bytes", "HBM left for KV on a GPU after weights, copies and reserve; 0 at least."
    )
    kv_room_tokens_per_gpu: int = metric("tokens", "Context tokens that room holds.")
    fits_in_hbm: int = metric("0 or 1", "1 where weights, copies and reserve fit into the HBM of a GPU.")
    share_hbm_bandwidth: float = metric(
        "fraction", "Share of modelled GPU time bound by reading weights from HBM."
    )
    share_flops: float = metric("fraction", "Share of modelled GPU time bound by arithmetic.")
    share_links: float = metric("fraction", "Share of modelled GPU time spent in dispatch and combine.")
    share_barrier_wait: float = metric(
        "fraction", "Share of modelled GPU time spent waiting for the slowest GPU."
    )
    share_kv_capacity: float = metric(
        "fraction", "Share of modelled GPU time added because KV room is below demand."
    )
    share_hbm_bandwidth_before: float = metric("fraction", "The same, contiguous.")
    share_flops_before: float = metric("fraction", "The same, contiguous.")
    share_links_before: float = metric("fraction", "The same, contiguous.")
    share_barrier_wait_before: float = metric("fraction", "The same, contiguous.")
    share_kv_capacity_before: float = metric("fraction", "The same, contiguous.")

    expert_load: list[list[int]] = metric("token copies", "[L][E] over measured steps.")
    gpu_load_before: list[list[int]] = metric("token copies", "[L][G] over measured steps, contiguous.")
    gpu_load: list[list[int]] = metric("token copies", "[L][G] over measured steps, chosen setting.")
    placement: list[list[int]] = metric("expert index", "[L][S] expert in each slot when the run ended.")
    step_max_over_mean_before: list[float] = metric("ratio", "[N] mean over layers, contiguous.")
    step_max_over_mean: list[float] = metric("ratio", "[N] mean over layers, chosen setting.")
    rebalance_steps: list[int] = metric("step index", "Measured steps before which a placement was computed.")
    gpu_compute_us_before: list[float] = metric(
        "µs", "[G] expert time of a step, mean over steps, contiguous."
    )
    gpu_links_us_before: list[float] = metric("µs", "[G] dispatch and combine of a step, contiguous.")
    gpu_barrier_us_before: list[float] = metric("µs", "[G] waiting of a step, contiguous.")
    gpu_compute_us: list[float] = metric("µs", "[G] expert time of a step, mean over steps, chosen setting.")
    gpu_links_us: list[float] = metric("µs", "[G] dispatch and combine of a step, chosen setting.")
    gpu_barrier_us: list[float] = metric("µs", "[G] waiting of a step, chosen setting.")
    hbm_capacity_bytes: int = metric("bytes", "HBM of one GPU.")
    hbm_reserve_bytes: int = metric("bytes", "Kept for activations and the runtime on one GPU.")
    hbm_other_weights_bytes: int = metric(
        "bytes", "Weights outside the routed experts, replicated on every GPU."
    )
    hbm_expert_bytes: list[int] = metric(
        "bytes", "[G] one home for every routed expert, all MoE layers of the model profile."
    )
    hbm_copies_bytes: list[int] = metric("bytes", "[G] extra slots, all MoE layers of the model profile.")
    hbm_kv_demand_bytes: int = metric(
        "bytes", "KV that one GPU would have to hold to serve all its requests at once."
    )
