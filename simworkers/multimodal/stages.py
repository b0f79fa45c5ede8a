"""What a request and a step of the accounted model take, from what the tiny engine really computed."""

from collections.abc import Sequence
from dataclasses import dataclass

from simworkers.engine.config import EngineConfig
from simworkers.engine.engine import Step
from simworkers.engine.request import ImageInput
from simworkers.multimodal.params import BLOCK_SIZE, MultimodalParams
from simworkers.multimodal.profiles import STAGE_GPUS, VISION_LANGUAGE_MODELS
from simworkers.multimodal.stage_cost import (
    Placement,
    StageTime,
    causal_pairs,
    decoder_pass,
    encode,
    preprocess,
    upload,
)

# One CPU core: a JPEG or PNG file to pixels. `python -m tests.bench.bench_preprocess_cost` measures it.
DECODE_US_PER_MEGAPIXEL = 10_000


@dataclass(frozen=True)
class StepTime:
    """One engine step: images are encoded, then the decoder runs once over all tokens."""

    encode: StageTime
    decode: StageTime

    @property
    def us(self) -> int:
        return self.encode.us + self.decode.us


class Prices:
    """Modelled time and memory of the accounted model on the accounted GPU."""

    def __init__(self, params: MultimodalParams) -> None:
        self.params = params
        self.model = VISION_LANGUAGE_MODELS[params.model]
        self.gpu = STAGE_GPUS[params.gpu]
        self.placement = Placement(self.gpu)

    def step(self, step: Step) -> StepTime:
        """Prefill chunks and decoding tokens share one pass over the weights."""
        spans = [(span.start, span.count) for span in step.spans]
        images = [span.request.images[index] for span in step.spans for index in span.encodes]
        return StepTime(self.encode(images), self.pass_over(spans))

    def encode(self, images: Sequence[ImageInput]) -> StageTime:
        sequences = [rows * columns for image in images for rows, columns in image.grid]
        return encode(self.model.encoder, self.gpu, sequences)

    def pass_over(self, spans: Sequence[tuple[int, int]]) -> StageTime:
        """spans: (tokens with KV already, new tokens) of each sequence."""
        return decoder_pass(
            self.model.decoder,
            self.placement,
            tokens=sum(count for _, count in spans),
            read_tokens=sum(start + (count if count == 1 else 0) for start, count in spans),
            pairs=sum(causal_pairs(count, start) for start, count in spans),
        )

    def upload(self, size_bytes: int) -> StageTime:
        return upload(size_bytes, self.params.client_mbytes_per_s * 1e6)

    def preprocess(self, pixels: int) -> StageTime:
        return preprocess(pixels)

    def decode_file(self, pixels: int) -> StageTime:
        """What identity by pixels costs where the patches are known already: the file is decoded all the same."""
        return preprocess(pixels, DECODE_US_PER_MEGAPIXEL)

    @property
    def kv_block_bytes(self) -> int:
        return BLOCK_SIZE * self.model.decoder.kv_bytes_per_token

    @property
    def embedding_bytes(self) -> int:
        return self.model.embedding_bytes

    def cache_bytes(self, config: EngineConfig) -> int:
        """HBM of all KV blocks and of the encoder cache."""
        return (
            config.num_blocks * self.kv_block_bytes + config.encoder_cache_embeddings * self.embedding_bytes
        )
