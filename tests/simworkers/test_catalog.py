import ast
import subprocess
import sys
from pathlib import Path

import pytest

from simworkers import catalog
from simworkers.inputs import trace_fields

HEAVY = ("torch", "numpy", "altair", "vl_convert", "django", "celery")


def test_reading_the_catalogue_loads_no_heavy_library():
    program = (
        "import sys; from simworkers import catalog; "
        "[catalog.get_job(name).params.model_json_schema() for name in catalog.job_names()]; "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_simulation_loads_no_django():
    program = (
        "import sys; import simworkers.moe.simulate, simworkers.moe.figures, simworkers.moe.balance_task; "
        "import simworkers.moe.placing_task, simworkers.moe.break_even_task, simworkers.moe.straggler_task; "
        "import simworkers.moe.sweep; "
        "print([name for name in ('django', 'celery', 'labs', 'quiz') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_lab_is_named_together_with_those_that_exist():
    with pytest.raises(catalog.UnknownLab) as caught:
        catalog.get_job("nope")
    assert isinstance(caught.value, KeyError)
    assert str(caught.value) == "there is no lab 'nope'; there are: moe-eplb, multimodal-cache, agent-routing"


@pytest.mark.parametrize("name", catalog.job_names())
def test_every_dotted_name_of_a_job_leads_to_a_function(name):
    job = catalog.get_job(name)
    dotted = [job.simulate, job.draw, *([job.sweep] if job.sweep else [])]
    for task in job.tasks.values():
        dotted += [task.prepare, task.references]
    assert all(callable(catalog.resolve(where)) for where in dotted)


@pytest.mark.parametrize("name", catalog.job_names())
def test_tasks_name_parameters_predictions_and_metrics_that_exist(name):
    job = catalog.get_job(name)
    for task in job.tasks.values():
        assert set(task.open_parameters) <= set(job.params.model_fields)
        assert set(task.prediction_metrics) == set(task.prediction.model_fields)
        assert set(task.prediction_metrics.values()) <= set(job.metrics.model_fields)


@pytest.mark.parametrize("name", catalog.job_names())
def test_only_tasks_of_a_lab_that_takes_traces_draw_from_one(name):
    job = catalog.get_job(name)
    assert trace_fields(job.params) or not any(task.draws_from_trace for task in job.tasks.values())


# How a lab is asked and listed; none of it decides what a run reports.
LISTING = {"simworkers.jobs", "simworkers.catalog", "simworkers.trace_summary"}


def imported_by(module):
    """Names of modules of simworkers that a module's text imports."""
    tree = ast.parse(file_of(module).read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("simworkers"):
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("simworkers"))


def file_of(module):
    return catalog._ROOT.parent / Path(*module.split(".")).with_suffix(".py")


@pytest.mark.parametrize("name", catalog.job_names())
def test_the_engine_version_covers_every_module_that_a_run_imports(name):
    job = catalog.get_job(name)
    dotted = [job.simulate, job.draw, *(task.prepare for task in job.tasks.values())]
    found = {job.params.__module__, job.metrics.__module__, *(where.partition(":")[0] for where in dotted)}
    to_read = set(found)
    while to_read:
        to_read = {other for module in to_read for other in imported_by(module) if file_of(other).is_file()}
        to_read -= found | LISTING
        found |= to_read
    assert {file_of(module) for module in found} - set(catalog._source_files(name)) == set()


def test_the_engine_version_follows_sources_and_data(monkeypatch, tmp_path):
    for path in catalog._source_files("moe-eplb"):
        copy = tmp_path / path.relative_to(catalog._ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    before = catalog.engine_version("moe-eplb")
    monkeypatch.setattr(catalog, "_ROOT", tmp_path)
    catalog.engine_version.cache_clear()
    assert catalog.engine_version("moe-eplb") == before
    for touched in ("corpora/code.txt", "moe/gates.npz", "moe/cost.py", "text.py"):
        content = (tmp_path / touched).read_bytes()
        (tmp_path / touched).write_bytes(content + b" ")
        catalog.engine_version.cache_clear()
        assert catalog.engine_version("moe-eplb") != before, touched
        (tmp_path / touched).write_bytes(content)
    monkeypatch.undo()
    catalog.engine_version.cache_clear()
    assert len(before) == 16
