"""Tests of a task draw its instances and run its references once a process: one process takes all tests of a file."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
OF_TASKS = ("_task", "_fixed_bounds")  # how names of files end


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.stem.endswith(OF_TASKS):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
