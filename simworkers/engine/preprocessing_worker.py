"""A process that turns picture files into patches: what a stranger's file may break is this process and nothing else.

`python -m simworkers.engine.preprocessing_worker` reads requests on stdin and answers them on stdout, one after the
other, until stdin ends. A message is a JSON line and then as many raw bytes as its "bytes" says::

    request  {"args": {…}, "limits": {…}, "bytes": n}     and the file
    reply    {"grid": [[rows, columns], …], "bytes": n}   and the patches, float32
             {"refused": "why", "bytes": 0}

It imports numpy and Pillow, no torch, so that it starts in a fraction of a second.
"""

import dataclasses
import json
import os
import resource
import sys
from typing import BinaryIO

from simworkers.engine.images import ImageLimits, RefusedImage, decode_image
from simworkers.engine.patches import ProcessedImage, ProcessorArgs, make_patches

MEMORY_BYTES = 2**30  # pictures at the default limits took 210 to 525 MiB, by kind (WebP most)


def process_image(data: bytes, args: ProcessorArgs, limits: ImageLimits) -> ProcessedImage:
    """Decode a file and make its patches. RefusedImage if it is not taken."""
    return make_patches(decode_image(data, limits), args)


def encode_request(data: bytes, args: ProcessorArgs, limits: ImageLimits) -> bytes:
    head = {"args": dataclasses.asdict(args), "limits": dataclasses.asdict(limits), "bytes": len(data)}
    return json.dumps(head).encode() + b"\n" + data


def answer(request: dict[str, object], data: bytes) -> tuple[dict[str, object], memoryview]:
    """(head, body) of the reply to one request."""
    args, limits = ProcessorArgs(**request["args"]), ImageLimits(**request["limits"])  # type: ignore[arg-type]
    try:
        image = process_image(data, args, limits)
        return {"grid": image.grid, "bytes": image.patches.nbytes}, image.patches.data.cast("B")
    except RefusedImage as error:
        return {"refused": str(error), "bytes": 0}, memoryview(b"")
    except MemoryError:
        return {"refused": "image: processing it takes more memory than it may", "bytes": 0}, memoryview(b"")


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until they end."""
    for line in iter(requests.readline, b""):
        request = json.loads(line)
        data = requests.read(request["bytes"])
        if len(data) < request["bytes"]:
            return  # who asked has gone
        head, body = answer(request, data)
        replies.write(json.dumps(head).encode() + b"\n")
        replies.write(body)
        replies.flush()


def limit_memory() -> None:
    """Let this process have at most MEMORY_BYTES of data, or less where it inherited less. Linux; else no effect."""
    if sys.platform == "linux":
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    limit_memory()
    # What a library prints must not land among the replies.
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)
        serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
