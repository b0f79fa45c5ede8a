"""What a run's encoder cache cost, and what it would have cost with the smallest and the cheapest capacity."""

from collections.abc import Sequence

from simworkers.multimodal.cache_sizing import Access, HbmPrice, cheapest, cost_us
from simworkers.multimodal.metrics import TurnRow
from simworkers.multimodal.server import Server
from simworkers.multimodal.stages import Prices


def measure_encoder_costs(server: Server, rows: Sequence[TurnRow], prices: Prices) -> dict[str, float]:
    """rows: of server.turns, in their order. The other capacities face the pictures that this run's turns needed."""
    turns = sorted(zip(server.turns, rows, strict=True), key=lambda pair: pair[0].first_token_us or 0)
    accesses, spent_us = [], 0
    for turn, row in turns:
        for picture, told in zip(turn.pictures, row.pictures, strict=True):
            encode_us = prices.encode([picture.image]).us
            if told.encode != "not_needed":
                accesses.append(Access(picture.image.key, encode_us))
            spent_us += encode_us * picture.is_encoded
    price = HbmPrice(prices.embedding_bytes, prices.gpu.hbm_bytes, _window_us(server))
    least = max((access.key[1] for access in accesses), default=0)
    smallest = max(least, prices.params.max_image_tokens)
    return {
        "encoder_cost_us": spent_us + price.cost_us(prices.params.encoder_cache_embeddings),
        "encoder_cost_smallest_us": cost_us(accesses, smallest, price),
        "encoder_cost_least_us": cost_us(accesses, cheapest(accesses, smallest, price), price),
    }


def _window_us(server: Server) -> int:
    """From the first question sent to the last token."""
    return max(turn.done_us or 0 for turn in server.turns) - min(turn.sent_us for turn in server.turns)
