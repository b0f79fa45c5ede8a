"""Modelled output stages: a talker with a vocoder, which makes speech, and a diffusion model, which makes images.

TTFT and TPOT count text tokens. Nobody hears the first codec token: the vocoder needs a block of them and the next, so
what counts is the time to first audio; after that a listener minds silence, that is a real-time factor above one, and
not how even the tokens are. A diffusion model shows nothing before its last step: seconds per image is all it has.
All times are whole microseconds.
"""

from dataclasses import dataclass

from simworkers.hardware import BYTES_PER_WEIGHT, GpuProfile
from simworkers.multimodal.profiles import DecoderProfile
from simworkers.multimodal.stage_cost import Placement, StageTime, decode_step

US_PER_S = 1_000_000
WEIGHT_BYTES = BYTES_PER_WEIGHT["bf16"]


@dataclass(frozen=True)
class VocoderProfile:
    """A diffusion transformer from codec tokens to spectrogram frames, and a generator from frames to samples.

    A block of frames is made from itself, lookback blocks before it and lookahead blocks after it. Every evaluation of
    the transformer runs twice where it is guided. generator_kernels: of the residual blocks of each upsampling stage,
    with convolutions_per_kernel convolutions each; channels halve at each stage.
    """

    name: str
    codec_tokens_per_s: int
    frames_per_token: int
    layers: int
    hidden: int
    ffn_hidden: int
    modulation_vectors: (
        int  # of hidden × hidden weights a layer, applied once an evaluation and not at each frame
    )
    wide_layers: int  # that attend to a neighbouring block, too
    block_frames: int
    lookback_blocks: int
    lookahead_blocks: int
    evaluations: int
    guided: bool
    generator_channels: int
    upsampling: tuple[int, ...]
    generator_kernels: tuple[int, ...]
    convolutions_per_kernel: int

    @property
    def block_tokens(self) -> int:
        return self.block_frames // self.frames_per_token

    @property
    def block_us(self) -> int:
        """Sound in one block."""
        return self.block_tokens * US_PER_S // self.codec_tokens_per_s

    @property
    def frame_weights(self) -> int:
        """Of the transformer, those that each frame is multiplied with."""
        return self.layers * (4 * self.hidden**2 + 2 * self.hidden * self.ffn_hidden)

    @property
    def transformer_bytes(self) -> int:
        modulation = self.layers * self.modulation_vectors * self.hidden**2
        return (self.frame_weights + modulation) * WEIGHT_BYTES

    def generator_stages(self) -> list[tuple[int, int]]:
        """(weights, samples a frame) of the residual blocks of each stage."""
        taps = sum(self.generator_kernels) * self.convolutions_per_kernel
        stages, channels, samples = [], self.generator_channels, 1
        for factor in self.upsampling:
            channels, samples = channels // 2, samples * factor
            stages.append((taps * channels * channels, samples))
        return stages


# The published configuration of Qwen2.5-Omni-7B's speech output (arXiv 2503.20215 and its released configuration): a
# talker of 24 layers of width 896; a transformer of 22 layers of width 1024 over 80-band frames, two a codec token, in
# blocks of 24 frames, two back and one ahead; fourth-order Runge–Kutta over nine intervals, guided; a BigVGAN generator
# of 240 samples a frame at 24 kHz, so 100 frames and 50 codec tokens a second.
TALKER = DecoderProfile("Qwen2.5-Omni talker", 1_351_000_000, 24, 896, 12, 4, 128, 18944, 8448)
VOCODER = VocoderProfile(
    name="Qwen2.5-Omni token-to-wave",
    codec_tokens_per_s=50,
    frames_per_token=2,
    layers=22,
    hidden=1024,
    ffn_hidden=2048,
    modulation_vectors=6,
    wide_layers=3,
    block_frames=24,
    lookback_blocks=2,
    lookahead_blocks=1,
    evaluations=4 * 9,
    guided=True,
    generator_channels=1536,
    upsampling=(5, 3, 2, 2, 2, 2),
    generator_kernels=(3, 7, 11),
    convolutions_per_kernel=6,
)


@dataclass(frozen=True)
class SpeechMetrics:
    """One spoken answer; times from the talker's start. A listener plays from the first audio on."""

    codec_tokens: int
    sound_us: int
    first_codec_token_us: int  # what TTFT would say
    first_audio_us: int
    last_audio_us: int
    real_time_factor: float  # of the slower of talker and vocoder, per second of sound
    stalls: int  # blocks that came after the one before them had been played
    stalled_us: int  # silence that they made


def vocode(vocoder: VocoderProfile, gpu: GpuProfile, blocks: int) -> StageTime:
    """So many blocks of sound in one go, with their neighbours. HBM: the transformer is read at every evaluation."""
    if blocks < 1:
        raise ValueError(f"blocks must be at least 1, not {blocks}")
    frames = (blocks + vocoder.lookback_blocks + vocoder.lookahead_blocks) * vocoder.block_frames
    keys = (vocoder.layers + vocoder.wide_layers) * vocoder.block_frames
    evaluated = frames * vocoder.evaluations * (2 if vocoder.guided else 1)
    flops = evaluated * (2 * vocoder.frame_weights + 4 * keys * vocoder.hidden)
    generator_weights = 0
    for weights, samples in vocoder.generator_stages():
        flops += 2 * weights * samples * blocks * vocoder.block_frames
        generator_weights += weights
    read_bytes = vocoder.evaluations * vocoder.transformer_bytes + generator_weights * WEIGHT_BYTES
    return StageTime(hbm_s=read_bytes / gpu.hbm_bytes_per_s, flops_s=flops / gpu.flops_per_s["bf16"])


def speak(
    gpu: GpuProfile,
    codec_tokens: int,
    *,
    streams: int = 1,
    blocks_per_chunk: int = 1,
    talker: DecoderProfile = TALKER,
    vocoder: VocoderProfile = VOCODER,
    prompt_tokens: int = 256,
) -> SpeechMetrics:
    """One of `streams` equal answers: a talker on one GPU makes a token of each a step, a vocoder on another follows.

    A chunk starts when its tokens and those of the blocks ahead of it exist (or no more come) and the vocoder has made
    the chunk before it, for all streams one after another; this stream is the last of them. blocks_per_chunk above the
    answer's blocks: nothing is streamed.
    """
    for name, value in (
        ("codec_tokens", codec_tokens),
        ("streams", streams),
        ("blocks_per_chunk", blocks_per_chunk),
    ):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    placement, token_at_us, now_us = Placement(gpu), [], 0
    for index in range(codec_tokens):
        now_us += decode_step(talker, placement, [prompt_tokens + index + 1] * streams).us
        token_at_us.append(now_us)
    blocks = -(-codec_tokens // vocoder.block_tokens)
    chunks, vocoder_us, free_us = [], 0, 0
    for first in range(0, blocks, blocks_per_chunk):
        count = min(blocks_per_chunk, blocks - first)
        needed = min(codec_tokens, (first + count + vocoder.lookahead_blocks) * vocoder.block_tokens)
        took_us = streams * vocode(vocoder, gpu, count).us
        free_us = max(free_us, token_at_us[needed - 1]) + took_us
        vocoder_us += took_us
        chunks.append((free_us, count * vocoder.block_us))
    sound_us = codec_tokens * US_PER_S // vocoder.codec_tokens_per_s
    stalls, stalled_us = _silences(chunks)
    return SpeechMetrics(
        codec_tokens=codec_tokens,
        sound_us=sound_us,
        first_codec_token_us=token_at_us[0],
        first_audio_us=chunks[0][0],
        last_audio_us=free_us,
        real_time_factor=max(token_at_us[-1], vocoder_us) / sound_us,
        stalls=stalls,
        stalled_us=stalled_us,
    )


def _silences(chunks: list[tuple[int, int]]) -> tuple[int, int]:
    """(how often, µs) a player that starts at once waits for the next chunk. chunks: (made at, length), both µs."""
    played_us, stalls, stalled_us = chunks[0][0], 0, 0
    for made_us, length_us in chunks:
        if made_us > played_us:
            stalls, stalled_us = stalls + 1, stalled_us + made_us - played_us
        played_us = max(played_us, made_us) + length_us
    return stalls, stalled_us


@dataclass(frozen=True)
class DiffusionProfile:
    """A diffusion transformer over image patches and text tokens.

    token_weights: those that one token is multiplied with; weights: all that a step reads. patch_px: side of the square
    of pixels that makes one token.
    """

    name: str
    weights: int
    token_weights: int
    layers: int
    hidden: int
    patch_px: int
    text_tokens: int


# The released configuration of FLUX.1-dev: 12B weights, width 3072, 19 layers with weights of their own for image and
# text and 38 with common ones (a token meets 12 × 3072² in each); 512 text tokens; an autoencoder of factor eight in
# front of patches of 2 × 2. Guidance is distilled, so a step is one pass.
DIFFUSION_MODELS = {
    "flux.1-dev": DiffusionProfile("FLUX.1-dev", 11_900_000_000, 57 * 12 * 3072**2, 57, 3072, 16, 512),
}


@dataclass(frozen=True)
class DiffusionMetrics:
    """A batch of equal images on one GPU; text encoders and the autoencoder are not in it."""

    steps: int
    step_us: int
    seconds_per_image: (
        float  # a user's wait, the same for all of a batch: nothing is shown before the last step
    )
    images_per_gpu_second: float
    binds: str


def paint(
    model: DiffusionProfile, gpu: GpuProfile, *, width_px: int, height_px: int, steps: int, batch: int = 1
) -> DiffusionMetrics:
    """Steps × the roofline of one step."""
    for name, value in (("width_px", width_px), ("height_px", height_px)):
        if value < model.patch_px or value % model.patch_px:
            raise ValueError(f"{name}: {value} is no whole number of {model.patch_px} px patches")
    for name, value in (("steps", steps), ("batch", batch)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    tokens = (width_px // model.patch_px) * (height_px // model.patch_px) + model.text_tokens
    flops = batch * (2 * model.token_weights * tokens + 4 * tokens * tokens * model.layers * model.hidden)
    step = StageTime(
        hbm_s=model.weights * WEIGHT_BYTES / gpu.hbm_bytes_per_s, flops_s=flops / gpu.flops_per_s["bf16"]
    )
    total_us = steps * step.us
    return DiffusionMetrics(steps, step.us, total_us / US_PER_S, batch * US_PER_S / total_us, step.binds)
