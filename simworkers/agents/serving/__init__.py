"""The simulated cluster: router, replicas, KV and time."""
