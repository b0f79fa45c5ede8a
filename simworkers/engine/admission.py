"""What an engine refuses at once, because it could never serve it."""

from simworkers.engine.config import EngineConfig
from simworkers.engine.encoder import Encoder
from simworkers.engine.model import ModelShape
from simworkers.engine.request import ImageInput, RefusedRequest, Request


def refuse_what_cannot_be_served(
    request: Request, config: EngineConfig, shape: ModelShape, encoder: Encoder | None
) -> None:
    """RefusedRequest, naming the field. Whatever passes can be served alone, and so will be in the end."""
    if not request.tokens:
        raise RefusedRequest("prompt: must have at least one token")
    wrong = next((token for token in request.tokens if not 0 <= token < shape.vocabulary), None)
    if wrong is not None:
        raise RefusedRequest(f"prompt: token {wrong} lies outside 0 … {shape.vocabulary - 1}")
    # The last output is never fed back, so it needs no KV.
    blocks = -(-(request.num_prompt + request.sampling.max_tokens - 1) // config.block_size)
    if blocks > config.num_blocks:
        raise RefusedRequest(
            f"prompt: needs {blocks} KV blocks with its outputs, and there are {config.num_blocks}"
        )
    end = 0
    for image in request.images:
        _refuse_image(image, end, request.num_prompt, config, encoder)
        end = image.stop


def _refuse_image(
    image: ImageInput, end: int, num_prompt: int, config: EngineConfig, encoder: Encoder | None
) -> None:
    """end: where the image before it ends."""
    name = f"images: {image.identifier!r}"
    if encoder is None:
        raise RefusedRequest(f"{name} needs an encoder, and this engine has none")
    if image.length < 1 or image.offset < end or image.stop > num_prompt:
        raise RefusedRequest(f"{name} does not fit the prompt at {image.offset} … {image.stop - 1}")
    most = min(config.encoder_cache_embeddings, config.limits.encoder_budget)
    if image.length > most:
        raise RefusedRequest(
            f"{name} has {image.length} embeddings; a step and the encoder cache take {most}"
        )
    expected = encoder.count_embeddings(image.grid)
    if image.length != expected:
        raise RefusedRequest(f"{name} has {expected} embeddings by its grid and {image.length} placeholders")
