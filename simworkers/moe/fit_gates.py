"""Fit the gates once: `python -m simworkers.moe.fit_gates` writes gates.npz, which runs then read.

Float Adam on an even mix of the domains with the usual auxiliary balance loss (E · Σ share · mean probability, Switch
Transformer, arXiv 2101.03961). What a language-model loss would add, a preference for the experts that serve a domain
well, is stood in for by giving each domain a seeded set of home experts and asking for HOME_MASS of the probability
there. Then a bias per expert is nudged toward equal load (as in arXiv 2408.15664), and all is rounded to integers.

The result depends on the machine's float arithmetic; the file is committed, so runs do not.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from simworkers.moe.gate import CONSTANT, FEATURES, GATES_FILE, LOGIT_SCALE, WEIGHT_BOUND, token_features
from simworkers.moe.traffic_params import DOMAINS
from simworkers.rng import Stream
from simworkers.text import Library, load_library

FITS = 4
NATURAL_TOP_K = {8: 2, 16: 2, 32: 4, 64: 4, 128: 8, 256: 8}
STEPS = 300
BATCH = 3072
BIAS_ROUNDS = 150
HOME_MASS = 0.7  # probability that a token's domain puts on its home experts
HOME_PULL = 2.0


def home_experts(num_experts: int, stream: Stream) -> NDArray[np.int64]:
    """[domains, E/8] experts that serve a domain, no expert serving two."""
    size = num_experts // 8
    return stream.permutation(num_experts)[: len(DOMAINS) * size].reshape(len(DOMAINS), size)


def fit_gate(library: Library, features: torch.Tensor, num_experts: int, fit: int) -> NDArray[np.int8]:
    """[D, E] one fitted gate, integers."""
    top_k = NATURAL_TOP_K[num_experts]
    stream = Stream(20_262, "fit", num_experts, fit)
    at_home = torch.zeros(len(DOMAINS), num_experts)
    at_home.scatter_(1, torch.from_numpy(home_experts(num_experts, stream)), 1.0)
    start = stream.integers(41, FEATURES * num_experts).reshape(FEATURES, num_experts) - 20
    weights = torch.tensor(start, dtype=torch.float32, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=1.0)
    for _ in range(STEPS):
        domain, batch = _even_batch(library, features, stream)
        logits = batch @ weights * LOGIT_SCALE
        probability = logits.softmax(dim=1)
        chosen = torch.zeros_like(probability).scatter_(1, logits.topk(top_k, dim=1).indices, 1.0)
        balance = num_experts * (chosen.mean(dim=0) / top_k * probability.mean(dim=0)).sum()
        home_mass = (probability * at_home[domain]).sum(dim=1)
        homes = -(
            HOME_MASS * home_mass.clamp_min(1e-6).log()
            + (1 - HOME_MASS) * (1 - home_mass).clamp_min(1e-6).log()
        ).mean()
        loss = balance + HOME_PULL * homes
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        with torch.no_grad():
            weights.clamp_(-WEIGHT_BOUND, WEIGHT_BOUND)
    return _level_bias(library, features, weights.detach().round(), top_k)


def _even_batch(
    library: Library, features: torch.Tensor, stream: Stream
) -> tuple[torch.Tensor, torch.Tensor]:
    each = BATCH // len(DOMAINS)
    rings = zip(library.starts, library.lengths, strict=True)
    rows = np.concatenate([start + stream.integers(int(length), each) for start, length in rings])
    return torch.arange(len(DOMAINS)).repeat_interleave(each), features[torch.from_numpy(rows)]


def _level_bias(
    library: Library, features: torch.Tensor, weights: torch.Tensor, top_k: int
) -> NDArray[np.int8]:
    """Nudge the bias row until the load of an even mix is level, keeping the levellest integers seen."""
    domain = np.repeat(np.arange(len(DOMAINS)), library.lengths)
    per_token = torch.from_numpy(1.0 / library.lengths[domain] / len(DOMAINS)).double()
    num_experts = weights.shape[1]
    logits = features[:, :-1] @ weights[:-1]
    bias = weights[-1].clone()
    best, best_spread = bias.clone(), float("inf")
    for done in range(BIAS_ROUNDS):
        rounded = bias.round().clamp(-WEIGHT_BOUND, WEIGHT_BOUND)
        chosen = (logits + CONSTANT * rounded).topk(top_k, dim=1).indices
        load = torch.zeros(num_experts, dtype=torch.float64)
        load.scatter_add_(0, chosen.reshape(-1), per_token.repeat_interleave(top_k) / top_k)
        spread = float(load.max() * num_experts)
        if spread < best_spread:
            best, best_spread = rounded.clone(), spread
        error = (load * num_experts).float() - 1.0
        bias -= error.clamp(-1, 1) * 6.0 * (1 - done / BIAS_ROUNDS)
    weights = weights.clone()
    weights[-1] = best
    return weights.to(torch.int8).numpy()


def main() -> None:
    torch.set_num_threads(1)
    library = load_library(DOMAINS)
    features = torch.from_numpy(token_features(library).astype(np.float32))
    fitted = {
        f"experts_{num_experts}": np.stack(
            [fit_gate(library, features, num_experts, fit) for fit in range(FITS)]
        )
        for num_experts in NATURAL_TOP_K
    }
    np.savez_compressed(GATES_FILE, **fitted)  # type: ignore[arg-type]
    print(f"{GATES_FILE.name}: {GATES_FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
