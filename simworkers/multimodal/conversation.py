"""Chats about pictures: what each turn sends, as tokens with pictures between them.

A chat API keeps no state, so every turn sends the whole chat again: the text before, each picture as the client encodes
it this time, all questions and answers so far, and the new question.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from simworkers.engine.images import ImageLimits, RefusedImage, decode_image
from simworkers.jobs import InvalidParameter
from simworkers.multimodal.clients import Client, ClientArgs, Pixels, encode_png
from simworkers.multimodal.own_image import decode_own_image
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.pictures import PictureKind, draw_picture
from simworkers.multimodal.work import OWN_PIXELS
from simworkers.rng import Stream
from simworkers.text import Library, load_library

VOCABULARY = 1024
PLACEHOLDER = 0  # no text has this token
TAKEN = (
    "taken on the operations floor"  # what a file carries beside its pixels, until somebody encodes it anew
)
CLOCK_TOKENS = 4  # of the time of day, where the text before the picture holds one


@dataclass
class Chat:
    """One user's conversation as it grows."""

    user: int
    files: list[bytes]  # as the user attached them
    clients: list[Client]
    answers: list[list[int]] = field(default_factory=list)

    @property
    def next_turn(self) -> int:
        return len(self.answers) + 1


class Workload:
    """All chats of a run, drawn from its seed."""

    def __init__(self, params: MultimodalParams, seed: int, tick: Callable[[], None]) -> None:
        """tick: called between pictures, whose drawing takes a while."""
        self.params = params
        self.seed = seed
        self.originals: dict[tuple[int, int], Pixels] = {}  # (user, index) → what the user attached
        self._tick = tick
        self.library: Library = load_library(("chat",))
        self.chats = [self._chat(user) for user in range(params.users)]

    def pictures(self, chat: Chat, turn: int) -> list[tuple[int, bytes, str]]:
        """(index, file, the client's id) of each picture that this turn sends, oldest first."""
        onset, second = self.params.onset_turn, self.params.second_picture_turn
        sent = []
        for index, client in enumerate(chat.clients):
            first_turn = second if index else 1
            if turn >= first_turn:
                own = index if self.params.client_id_per == "picture" else 0
                sends = turn - max(first_turn, onset) + 1  # of the client as set, this one included
                file = client.send(sends) if sends > 0 else chat.files[index]
                sent.append((index, file, f"user {chat.user}, picture {own}"))
        return sent

    def messages(self, chat: Chat, turn: int) -> list[list[int] | int]:
        """The prompt of this turn: token ids, and the index of a picture where one stands."""
        params = self.params
        parts: list[list[int] | int] = [self._system(turn)]
        for past in range(1, turn + 1):
            if past == 1:
                parts.append(0)
            if past == params.second_picture_turn:
                parts.append(1)
            parts.append(self._text(params.question_tokens, "question", chat.user, past))
            if past < turn:
                parts.append(chat.answers[past - 1])
        return parts

    def first_arrival_us(self, user: int) -> int:
        """When a user asks for the first time: somewhere in the first two seconds."""
        return Stream(self.seed, "arrival", user).integer(2_000_000)

    def _system(self, turn: int) -> list[int]:
        """The text before the picture; where it holds a time, that stands at its end."""
        tokens = self._text(self.params.system_tokens, "system")
        if self.params.changing_text and turn >= self.params.onset_turn:
            kept = max(len(tokens) - CLOCK_TOKENS, 0)
            tokens = tokens[:kept] + self._text(CLOCK_TOKENS, "clock", turn)
        return tokens

    def _text(self, count: int, *name: str | int) -> list[int]:
        """A stretch of the chat corpus; its start is drawn by name. No token is the placeholder."""
        tokens = self.library.tokens
        start = Stream(self.seed, *name).integer(len(tokens))
        return [int(tokens[(start + n) % len(tokens)]) % (VOCABULARY - 1) + 1 for n in range(count)]

    def _chat(self, user: int) -> Chat:
        count = 2 if self.params.second_picture_turn else 1
        files = [self._file(user, index) for index in range(count)]
        args = ClientArgs(quality=self.params.jpeg_quality)
        return Chat(user, files, [Client(self.params.client, file, args) for file in files])

    def _file(self, user: int, index: int) -> bytes:
        params = self.params
        whose = 0 if params.same_picture else user
        if params.picture == "own" and index == 0:
            file = decode_own_image(params.own_image)
        else:
            kind = "terminal" if params.picture == "own" else params.picture
            seed = Stream(self.seed, "picture", whose, index).integer(2**31)
            file = _drawn_file(kind, seed, params.image_width_px, params.image_height_px)
        self.originals[user, index] = decode_image(file)
        self._tick()
        return file


@lru_cache(maxsize=32)
def _drawn_file(kind: PictureKind, seed: int, width_px: int, height_px: int) -> bytes:
    """Kept, since drawing an instance plays the same chats again and again."""
    return encode_png(draw_picture(kind, seed, width_px, height_px), comment=TAKEN)


def check_own_image(params: MultimodalParams) -> None:
    """InvalidParameter naming own_image if the learner's picture cannot be decoded."""
    if params.picture == "own":
        try:
            decode_image(decode_own_image(params.own_image), ImageLimits(pixels=OWN_PIXELS))
        except RefusedImage as error:
            raise InvalidParameter(f"own_image: {error}") from error
