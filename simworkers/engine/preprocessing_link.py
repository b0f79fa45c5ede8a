"""The parent's side of a preprocessing worker: starts it, asks it, and gives it up when it dies or takes too long.

A worker is a child over two pipes and not a `multiprocessing` process: those import the parent's main module anew,
which may import torch, and a daemonic parent cannot make them. It ends when its stdin does, so none outlives this
process, however that dies.
"""

import json
import os
import selectors
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from simworkers.engine.images import ImageLimits, RefusedImage
from simworkers.engine.patches import ProcessedImage, ProcessorArgs
from simworkers.engine.preprocessing_worker import encode_request

PACKAGE_ROOT = Path(__file__).resolve().parents[2]
CHUNK_BYTES = 2**16  # what a pipe holds


class PreprocessingError(RuntimeError):
    """A worker died or took too long: our fault, not the picture's. The next picture gets a new worker."""


class Worker:
    """One process, started at its first picture and again after it died or was killed."""

    def __init__(self, time_limit_s: float) -> None:
        self.time_limit_s = time_limit_s
        self.process: subprocess.Popen[bytes] | None = None

    def process_image(self, data: bytes, args: ProcessorArgs, limits: ImageLimits) -> ProcessedImage:
        """RefusedImage if the file is not taken, PreprocessingError if the process dies or takes too long."""
        process = self.process or self._start()
        try:
            head, body = _exchange(process, encode_request(data, args, limits), self.time_limit_s)
        except TimeoutError as error:
            self.stop()
            raise PreprocessingError(f"a picture took longer than {self.time_limit_s:g} s") from error
        except OSError as error:
            code = self.stop()
            raise PreprocessingError(f"the preprocessing worker ended with status {code}") from error
        if "refused" in head:
            raise RefusedImage(head["refused"])
        grid = tuple((rows, columns) for rows, columns in head["grid"])
        patches = np.frombuffer(body, dtype=np.float32).reshape(-1, args.patch_dim)
        return ProcessedImage(patches, grid, len(patches) // args.merge**2)

    def stop(self) -> int | None:
        """Kill the process, if there is one, and return its exit status."""
        process, self.process = self.process, None
        if process is None:
            return None
        process.kill()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        return process.wait()

    def kill(self) -> None:
        """Kill the process and leave the rest to the thread that waits for its reply."""
        if (process := self.process) is not None:
            process.kill()

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(PACKAGE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "simworkers.engine.preprocessing_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
        return self.process


def _exchange(
    process: subprocess.Popen[bytes], request: bytes, time_limit_s: float
) -> tuple[dict[str, Any], bytes]:
    """Send a request and read (head, body) of its reply. TimeoutError; OSError if the process has gone."""
    deadline = time.monotonic() + time_limit_s
    unsent, reply = memoryview(request), bytearray()
    assert process.stdin is not None and process.stdout is not None
    head: dict[str, Any] = {}
    end: int | None = None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdin, selectors.EVENT_WRITE)
        selector.register(process.stdout, selectors.EVENT_READ)
        while end is None or len(reply) < end:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not (ready := selector.select(left_s)):
                raise TimeoutError
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    unsent = unsent[os.write(key.fd, unsent[:CHUNK_BYTES]) :]
                    if not unsent:
                        selector.unregister(process.stdin)
                elif part := os.read(key.fd, 16 * CHUNK_BYTES):
                    reply += part
                else:
                    raise BrokenPipeError
            if end is None and (line := reply.find(b"\n")) >= 0:
                head = json.loads(reply[:line])
                del reply[: line + 1]
                end = head["bytes"]
    return head, bytes(reply)
