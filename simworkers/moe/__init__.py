"""Lab 1, `moe-eplb`: send tokens to experts, and keep the GPUs that hold them equally busy."""
