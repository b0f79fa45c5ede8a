"""Why a stage worked again: each turn beside the same user's turn before.

Pure looks at what was sent, found and known; nothing here changes a cache.
"""

from dataclasses import dataclass, field

from simworkers.multimodal.identity import hash_pixels
from simworkers.multimodal.metrics import Reason
from simworkers.multimodal.params import BLOCK_SIZE, MultimodalParams
from simworkers.multimodal.server import Picture, Turn


@dataclass
class History:
    """All that was ever seen or computed in a run, for telling a new thing from one that was forgotten."""

    params: MultimodalParams
    computed_blocks: set[bytes] = field(default_factory=set)  # names of KV blocks
    encoded: set[tuple[str, int]] = field(default_factory=set)  # keys of embeddings
    preprocessed: set[tuple[bytes, object]] = field(
        default_factory=set
    )  # files with their processor arguments

    def prefix(self, turn: Turn, before: Turn | None) -> Reason:
        """Why KV was missing that the turn before had."""
        request = turn.request
        assert request is not None and request.cached_tokens is not None
        if before is None:
            return "first"
        if not self.params.prefix_caching:
            return "caching_off"
        if request.cached_tokens >= reusable_tokens(turn, before):
            return "hit"
        block = request.cached_tokens // BLOCK_SIZE  # the first one that was not found
        if request.hashes[block] in self.computed_blocks:
            return "evicted"
        if block == 0 and turn.salt != before.salt:
            return "salt_changed"
        start, stop = block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE
        for picture, old in zip(turn.pictures, before.pictures, strict=False):
            image = picture.image
            if image.offset < stop and start < image.stop and image.key != old.image.key:
                return self._why_another_identifier(picture, old)
        return "text_changed"

    def endless_tokens(self, turn: Turn) -> int:
        """What a prefix cache without limit finds: leading blocks that any turn served before had computed."""
        request = turn.request
        assert request is not None and request.cached_tokens is not None
        most = (request.num_prompt - 1) // BLOCK_SIZE
        found = 0
        while found < most and request.hashes[found] in self.computed_blocks:
            found += 1
        # Requests that ran side by side may have found blocks of one that had not ended.
        return max(found * BLOCK_SIZE, request.cached_tokens)

    def encode(self, picture: Picture, old: Picture | None, *, is_covered: bool) -> Reason:
        """is_covered: the prefix cache held all of the picture's tokens."""
        if not picture.is_encoded:
            return "not_needed" if is_covered else "hit"
        if old is None:
            return "first"
        if picture.image.key in self.encoded:
            return "evicted" if self.params.encoder_caching else "caching_off"
        if picture.image.key == old.image.key:
            return "first"  # the turn before found it in the prefix cache of somebody else
        return self._why_another_identifier(picture, old)

    def preprocess(self, picture: Picture, old: Picture | None) -> Reason:
        if not picture.is_preprocessed:
            return "hit"
        if old is None:
            return "first"
        if (picture.data, picture.args) in self.preprocessed:
            return "evicted"
        return "processor_changed" if picture.args != old.args else self._what_changed(picture, old)

    def remember(self, turn: Turn) -> None:
        """Called when a turn has been judged, in the order in which turns were served."""
        assert turn.request is not None
        self.computed_blocks.update(turn.request.hashes)
        for picture in turn.pictures:
            self.preprocessed.add((picture.data, picture.args))
            if picture.is_encoded:
                self.encoded.add(picture.image.key)

    def _why_another_identifier(self, picture: Picture, old: Picture) -> Reason:
        if picture.args != old.args:
            return "processor_changed"
        if self.params.identity == "client_id" and picture.image.length == old.image.length:
            return "id_changed"
        return self._what_changed(picture, old)

    def _what_changed(self, picture: Picture, old: Picture) -> Reason:
        if hash_pixels(picture.pixels) == hash_pixels(old.pixels):
            return "bytes_changed"
        return "pixels_changed"


def reusable_tokens(turn: Turn, before: Turn | None) -> int:
    """What an endless cache could have found had text and pictures always looked the same.

    The chat only grows, so this turn repeats all that the turn before held, its answer included, whose last token has
    no KV. Full blocks count, and at least one token is left to compute.
    """
    if before is None:
        return 0
    assert before.request is not None and turn.request is not None
    grown = sum(picture.image.length for picture in turn.pictures[: len(before.pictures)])
    had = sum(picture.image.length for picture in before.pictures)
    repeated = len(before.request.tokens) - 1 - had + grown
    return min(repeated, len(turn.prompt) - 1) // BLOCK_SIZE * BLOCK_SIZE
