"""Imports run one way, and heavy libraries stay where they work."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("config", "quiz", "labs", "simworkers")

# Who may import whom, besides itself. config wires the apps and is imported by nothing.
ALLOWED = {
    "config": {"quiz", "labs", "simworkers"},
    "labs": {"quiz", "simworkers"},
    "quiz": set(),
    "simworkers": set(),
}
# The transport and the URL conf are named in the settings; nothing else of config may be imported by an app.
HEAVY = {"torch", "numpy", "altair", "vl_convert"}


def modules(package: str) -> Iterator[Path]:
    for path in sorted((ROOT / package).rglob("*.py")):
        if "migrations" not in path.parts:
            yield path


def imported(path: Path) -> set[str]:
    """Top-level names that a module imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_stands_below_it(package):
    wrong = {
        str(path.relative_to(ROOT)): sorted(names)
        for path in modules(package)
        if (names := imported(path) & set(PACKAGES) - {package} - ALLOWED[package])
    }
    assert wrong == {}


# Rooms of the agent lab, the ground first: none imports one that stands behind it.
AGENT_ROOMS = ("traffic", "serving", "pictures", "tasks")


def agent_rooms_in(path: Path) -> set[str]:
    """Rooms of the agent lab that a module imports from."""
    names = [
        node.module
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
    ]
    parts = [name.split(".") for name in names if name.startswith("simworkers.agents.")]
    return {part[2] for part in parts} & set(AGENT_ROOMS)


@pytest.mark.parametrize("room", AGENT_ROOMS)
def test_a_room_of_the_agent_lab_imports_none_above_it(room):
    above = set(AGENT_ROOMS[AGENT_ROOMS.index(room) + 1 :])
    wrong = {
        path.name: found
        for path in modules(f"simworkers/agents/{room}")
        if (found := agent_rooms_in(path) & above)
    }
    assert wrong == {}


def test_simulations_know_neither_django_nor_celery():
    web = {"django", "celery", "rest_framework", "kombu"}
    assert {str(path) for path in modules("simworkers") if imported(path) & web} == set()


def test_the_apps_import_no_library_that_only_simulations_need():
    found = {
        str(path)
        for package in ("config", "quiz", "labs")
        for path in modules(package)
        if imported(path) & HEAVY
    }
    assert found == set()


LOADED = """
import json, os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
from config.asgi import application
from django.urls import get_resolver
get_resolver().url_patterns
from django.contrib import admin
admin.autodiscover()
print(json.dumps(sorted(name for name in sys.modules if "." not in name)))
"""


def loaded_modules(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ.copy(),
    )
    return set(json.loads(done.stdout))


def test_the_web_process_loads_no_torch_numpy_altair_or_vl_convert():
    assert loaded_modules(LOADED) & HEAVY == set()


def test_a_simulation_loads_no_django_and_no_celery():
    code = """
import json, sys
import simworkers.__main__, simworkers.job_entries
from simworkers import catalog
for name in catalog.job_names():
    catalog.resolve(catalog.get_job(name).simulate)
    catalog.resolve(catalog.get_job(name).draw)
print(json.dumps(sorted(name for name in sys.modules if "." not in name)))
"""
    assert loaded_modules(code) & {"django", "celery", "kombu", "rest_framework"} == set()


def test_the_catalogue_loads_no_heavy_library():
    code = "import json, sys, simworkers.catalog; print(json.dumps(sorted(sys.modules)))"
    assert loaded_modules(code) & HEAVY == set()
