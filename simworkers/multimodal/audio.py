"""A modelled audio encoder: sound to frames to tokens, encoded whole or in chunks while it is still being spoken.

TTFT does not describe this stage. Speakers send a request for as long as they speak, so TTFT from the first byte grows
with the sentence whatever the server does. What they notice is the delay after the last word; what a server must keep
below one is its work in seconds for each second of sound (the real-time factor). All times are whole microseconds.
"""

from dataclasses import dataclass

from simworkers.hardware import BYTES_PER_WEIGHT, GpuProfile
from simworkers.multimodal.stage_cost import StageTime

US_PER_MS = 1000


@dataclass(frozen=True)
class AudioEncoderProfile:
    """A Whisper-style transformer behind convolutions.

    frame_ms: a spectrogram frame; frames_per_position: the convolutions' stride; positions_per_token: pooling.
    window_ms: sound that attends to itself when it is encoded whole.
    """

    name: str
    weights: int
    layers: int
    hidden: int
    frame_ms: int
    frames_per_position: int
    positions_per_token: int
    window_ms: int

    @property
    def weights_bytes(self) -> int:
        return self.weights * BYTES_PER_WEIGHT["bf16"]

    @property
    def token_ms(self) -> int:
        return self.frame_ms * self.frames_per_position * self.positions_per_token

    def positions(self, sound_ms: int) -> int:
        """Positions that the transformer sees; a started one counts."""
        return -(-_some(sound_ms) // (self.frame_ms * self.frames_per_position))

    def tokens(self, sound_ms: int) -> int:
        """Prompt tokens of a stretch of sound."""
        return -(-_some(sound_ms) // self.token_ms)


# arXiv 2407.10759 (Qwen2-Audio): the encoder of Whisper large-v3 (32 layers of width 1280, feed-forward 5120, 637M
# weights), spectrogram frames every 10 ms, convolutions of stride two and pooling by two, so 40 ms a token; windows of
# 30 s as Whisper has (arXiv 2212.04356). Qwen2.5-Omni (arXiv 2503.20215) encodes blocks of 2 s with it, to stream.
AUDIO_ENCODERS = {
    "qwen2-audio": AudioEncoderProfile("Qwen2-Audio encoder", 637_000_000, 32, 1280, 10, 2, 2, 30_000)
}
STREAMING_CHUNK_MS = 2000


@dataclass(frozen=True)
class AudioMetrics:
    """tokens of the prompt; times from the first sound, which takes sound_us to speak."""

    tokens: int
    sound_us: int
    encode_us: int  # GPU time
    ready_us: int  # the last embedding
    after_speech_us: int  # from the last sound to the last embedding: what streaming shortens
    real_time_factor: float  # encode_us ÷ sound_us
    streams_per_gpu: int  # speakers whom one GPU keeps up with, each alone in its batch


def encode_sound(encoder: AudioEncoderProfile, gpu: GpuProfile, stretches_ms: tuple[int, ...]) -> StageTime:
    """One batch: weights are read once, each stretch attends to itself."""
    if not stretches_ms:
        return StageTime()
    flops = 0
    for stretch_ms in stretches_ms:
        positions = encoder.positions(stretch_ms)
        flops += 2 * encoder.weights * positions + 4 * positions * positions * encoder.layers * encoder.hidden
    return StageTime(
        hbm_s=encoder.weights_bytes / gpu.hbm_bytes_per_s, flops_s=flops / gpu.flops_per_s["bf16"]
    )


def encode_whole(encoder: AudioEncoderProfile, gpu: GpuProfile, sound_ms: int) -> AudioMetrics:
    """After the last sound, all windows in one batch."""
    windows_ms = _cut(_some(sound_ms), encoder.window_ms)
    encode_us = encode_sound(encoder, gpu, windows_ms).us
    return _metrics(encoder.tokens(sound_ms), sound_ms, encode_us, sound_ms * US_PER_MS + encode_us)


def encode_streamed(
    encoder: AudioEncoderProfile, gpu: GpuProfile, sound_ms: int, chunk_ms: int = STREAMING_CHUNK_MS
) -> AudioMetrics:
    """Each chunk as soon as it has been spoken and the one before is done; the weights are read for every chunk.

    Raises ValueError unless chunks are whole tokens: the count of tokens would depend on the chunking otherwise.
    """
    if chunk_ms < 1 or chunk_ms % encoder.token_ms:
        raise ValueError(f"chunk_ms: {chunk_ms} is no whole number of {encoder.token_ms} ms tokens")
    heard_us = free_us = encode_us = 0
    for stretch_ms in _cut(_some(sound_ms), chunk_ms):
        heard_us += stretch_ms * US_PER_MS
        took_us = encode_sound(encoder, gpu, (stretch_ms,)).us
        encode_us += took_us
        free_us = max(free_us, heard_us) + took_us
    return _metrics(encoder.tokens(sound_ms), sound_ms, encode_us, free_us)


def _metrics(tokens: int, sound_ms: int, encode_us: int, ready_us: int) -> AudioMetrics:
    sound_us = sound_ms * US_PER_MS
    return AudioMetrics(
        tokens=tokens,
        sound_us=sound_us,
        encode_us=encode_us,
        ready_us=ready_us,
        after_speech_us=ready_us - sound_us,
        real_time_factor=encode_us / sound_us,
        streams_per_gpu=sound_us // encode_us,
    )


def _cut(sound_ms: int, piece_ms: int) -> tuple[int, ...]:
    """Whole pieces and the rest."""
    whole, rest = divmod(sound_ms, piece_ms)
    return (piece_ms,) * whole + ((rest,) if rest else ())


def _some(sound_ms: int) -> int:
    if sound_ms < 1:
        raise ValueError(f"sound_ms must be at least 1, not {sound_ms}")
    return sound_ms
