"""What was refused, or repaired, while a trace was read: the first places by name, and how many there were."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from simworkers.agents.traffic.trace_fields import WHOLE_LINE

NOTES_KEPT = 1000  # a file may have a fault a line


@dataclass(frozen=True, slots=True)
class Note:
    """What was refused, or repaired, at one place of the file."""

    line: int  # from 1
    field: str
    message: str
    is_refused: bool  # False: repaired, and used

    def __str__(self) -> str:
        place = "" if self.field == WHOLE_LINE else f"{self.field}: "
        return f"line {self.line}: {place}{self.message}"


@dataclass
class Notes:
    """Those of the first lines, in their order, and how many there were in all."""

    kept: list[Note] = field(default_factory=list)
    refused: int = 0
    repaired: int = 0

    def add(self, notes: Iterable[Note]) -> None:
        """Of lines that come behind those before."""
        for note in notes:
            self.refused += note.is_refused
            self.repaired += not note.is_refused
            if len(self.kept) < NOTES_KEPT:
                self.kept.append(note)

    def merged(self, other: "Notes") -> "Notes":
        """Of the same file: their lines may stand between these."""
        kept = sorted([*self.kept, *other.kept], key=lambda note: note.line)[:NOTES_KEPT]
        return Notes(kept, self.refused + other.refused, self.repaired + other.repaired)
