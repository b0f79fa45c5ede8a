"""A trace made small enough for an engine that computes it: as many requests, far fewer tokens."""

from dataclasses import replace

from simworkers.agents.traffic.traces import Session, Trace, TraceRequest


def scale_down(trace: Trace, blocks_to_one: int, block_size: int) -> Trace:
    """So many blocks become one of `block_size` tokens, named by the last of them: what a prompt is up to there.

    All tokens shrink by one factor. Prompts that share a beginning share it still, down to whole new blocks. Only for
    traces whose ids name all that stands before them, as hashes of prefixes do.
    """
    if blocks_to_one < 1 or block_size < 1:
        raise ValueError(f"blocks_to_one: {blocks_to_one} blocks cannot become one of {block_size} tokens")
    return replace(
        trace, sessions=[_session(session, blocks_to_one, block_size) for session in trace.sessions]
    )


def _session(session: Session, blocks_to_one: int, block_size: int) -> Session:
    old_size = session.block_size * blocks_to_one

    def scaled(tokens: int) -> int:
        return max(tokens * block_size // old_size, 1)

    def request_of(request: TraceRequest) -> TraceRequest:
        whole = request.input_tokens // old_size
        return replace(
            request,
            input_tokens=scaled(request.input_tokens),
            output_tokens=scaled(request.output_tokens),
            blocks=request.blocks[blocks_to_one - 1 :: blocks_to_one][:whole],
        )

    return replace(session, block_size=block_size, requests=tuple(map(request_of, session.requests)))
