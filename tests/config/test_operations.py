"""docs/operations.md names every variable that the settings read, with its default, and no other."""

import ast
import re
from pathlib import Path

import pytest

from config import metrics
from labs.metrics import run_metrics

ROOT = Path(__file__).resolve().parents[2]
DOCS = (ROOT / "docs" / "operations.md").read_text("utf-8")


def readings() -> dict[str, ast.Call]:
    """Name of a variable → the call that reads it: of `env`, or of a function of config.environment."""
    found: dict[str, ast.Call] = {}
    trees = [
        ast.parse((ROOT / "config" / name).read_text("utf-8")) for name in ("environment.py", "settings.py")
    ]
    readers = {node.name for node in trees[0].body if isinstance(node, ast.FunctionDef)}
    for node in (node for tree in trees for node in ast.walk(tree)):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        called = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        if isinstance(called, ast.Name) and called.id in readers | {"env"}:
            found.setdefault(str(node.args[0].value), node)
    return found


def documented() -> dict[str, str]:
    """Name of a variable → the default that its row states."""
    section = DOCS.split("## Variables", 1)[1].split("\n## ", 1)[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.MULTILINE))


def test_every_variable_is_documented_and_every_documented_one_is_read():
    assert len(readings()) > 20
    assert set(documented()) == set(readings())


@pytest.mark.parametrize("name", sorted(readings()))
def test_a_stated_default_is_the_real_one(name):
    call = readings()[name]
    values = [node.value for node in call.args[1:] if isinstance(node, ast.Constant)]
    for default in values:
        stated = str(default).lower() if isinstance(default, bool) else str(default)
        assert f"`{stated}`" in documented()[name]


def test_every_metric_of_the_site_is_documented_and_no_other(db):
    families = {family.name for family in [*run_metrics(), *metrics.PROCESS.collect()]}
    ours = {name for name in families if name.startswith("staffloop_")} | {"staffloop_database_up"}
    named = {name.removesuffix("_total") for name in re.findall(r"\b(staffloop_\w+?)(?:_bucket)?\b", DOCS)}
    assert named - {"staffloop"} == ours
