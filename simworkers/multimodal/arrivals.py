"""Requests of a simulated cluster: when they come and what they bring. Integers only, exact on every machine."""

from collections.abc import Iterator
from dataclasses import dataclass

from simworkers.multimodal.cluster_params import ClusterParams
from simworkers.rng import Stream

WORD = 2**64
BLOCK = 1024  # words drawn at once
US_PER_S = 1_000_000


@dataclass(frozen=True)
class Arrival:
    """One request as its client sends it. cached_images of its images are in an encoder cache already."""

    index: int
    sent_us: int
    text_tokens: int
    output_tokens: int
    images: int
    cached_images: int


def draw_arrivals(params: ClusterParams, seed: int) -> list[Arrival]:
    """In order of sent_us; every quantity from its own stream, so that one knob does not redraw another's."""
    count = params.num_requests
    gaps = exponential_gaps(Stream(seed, "gaps"), round(US_PER_S / params.requests_per_s), count)
    text = _between(Stream(seed, "text"), params.text_tokens_min, params.text_tokens_max, count)
    outputs = _between(Stream(seed, "outputs"), params.output_tokens_min, params.output_tokens_max, count)
    images = _between(Stream(seed, "images"), params.images_min, params.images_max, count)
    lots = Stream(seed, "image share").integers(100, count).tolist()
    hits = Stream(seed, "encoder hits")
    arrivals, sent_us = [], 0
    for index in range(count):
        sent_us += gaps[index]
        brought = images[index] if lots[index] < params.image_share_percent else 0
        # A draw for every image slot, taken or not, keeps later requests' draws in place.
        drawn = hits.integers(100, params.images_max)[:brought]
        cached = int((drawn < params.encoder_hit_percent).sum())
        arrivals.append(Arrival(index, sent_us, text[index], outputs[index], brought, cached))
    return arrivals


def exponential_gaps(stream: Stream, mean_us: int, count: int) -> list[int]:
    """[count] gaps of a Poisson process in whole microseconds, rounded down.

    Von Neumann's comparison method (1951): no logarithm, which machines round differently. Uniform integers are drawn
    while they fall; a run of odd length keeps its first as the fraction, an even one adds a whole and starts again.
    """
    words = _endless(stream)
    gaps = []
    for _ in range(count):
        whole = 0
        while (first := _first_of_odd_run(words)) is None:
            whole += 1
        gaps.append((whole * WORD + first) * mean_us // WORD)
    return gaps


def _first_of_odd_run(words: Iterator[int]) -> int | None:
    first = last = next(words)
    odd = True
    while (word := next(words)) < last:
        last, odd = word, not odd
    return first if odd else None


def _endless(stream: Stream) -> Iterator[int]:
    while True:
        yield from stream.words(BLOCK).tolist()


def _between(stream: Stream, least: int, most: int, count: int) -> list[int]:
    """[count] uniform integers in least … most."""
    drawn: list[int] = (stream.integers(most - least + 1, count) + least).tolist()
    return drawn
