"""One thread: two of torch's do nothing but wait for each other on tensors this small."""

from collections.abc import Iterator

import pytest

from simworkers.threads import torch_threads


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    with torch_threads(1):
        yield
