"""A small serving engine that really computes: continuous batching over a paged KV cache, with images."""
