"""Whether two traces say the same; arrays have no plain equality."""

from dataclasses import fields

from simworkers.agents.traffic.traces import Session, Trace, TraceRequest


def _shown(one: Session | TraceRequest) -> dict[str, object]:
    left_out = {"requests", "blocks", "side_by_side"}
    return {field.name: getattr(one, field.name) for field in fields(one) if field.name not in left_out}


def assert_same_sessions(found: Trace, expected: Trace) -> None:
    """Sessions, requests and block ids; notes, and how agents stood in a file, are left out."""
    assert list(map(_shown, found.sessions)) == list(map(_shown, expected.sessions))
    for one, other in zip(found.sessions, expected.sessions, strict=True):
        assert list(map(_shown, one.requests)) == list(map(_shown, other.requests))
        for mine, theirs in zip(one.requests, other.requests, strict=True):
            assert mine.blocks.tolist() == theirs.blocks.tolist()
