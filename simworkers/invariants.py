"""What must hold in a run, noted while it goes on."""

from collections.abc import Iterable

from simworkers.jobs import Invariant


class Invariants:
    """Collects the state of every invariant; the first event stands."""

    def __init__(self, names: Iterable[str]) -> None:
        self.invariants = {name: Invariant(state="held") for name in names}

    def break_(self, name: str, event: str) -> None:
        """Our bug: the run fails."""
        if self.invariants[name].state != "broken":
            self.invariants[name] = Invariant(state="broken", first_event=event)

    def break_by_setting(self, name: str, event: str) -> None:
        """The learner's setting does this: the lesson."""
        if self.invariants[name].state == "held":
            self.invariants[name] = Invariant(state="broken_by_setting", first_event=event)
