"""Labs and tasks from files: an author's edits of them stay, and a fault is named by file and field."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from labs.loading import load_labs
from labs.models import Lab, LabTask
from quiz.content import InvalidContent
from tests.labs.conftest import FIXTURES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES, tmp_path / "labs"))


def change(folder: Path, **values: Any) -> None:
    path = folder / "moe-eplb.json"
    content = json.loads(path.read_text())
    content["tasks"][0] |= values
    path.write_text(json.dumps(content))


def test_loading_twice_changes_nothing(lab, task):
    before = list(LabTask.objects.order_by("pk").values())
    load_labs(FIXTURES, force=True)
    assert list(LabTask.objects.order_by("pk").values()) == before


def test_what_an_author_edited_stays_while_the_files_have_not_changed(lab, task):
    LabTask.objects.update(prompt="Mended.", attempts_allowed=7, published=False)
    load_labs(FIXTURES)
    edited = LabTask.objects.get(pk=task.pk)
    assert (edited.prompt, edited.attempts_allowed, edited.published) == ("Mended.", 7, False)


def test_a_changed_prompt_is_loaded_and_a_task_that_was_taken_back_stays_so(lab, task, folder):
    LabTask.objects.update(prompt="Mended.", published=False)
    (folder / "moe-balance-hbm.md").write_text("From the file.")
    load_labs(folder)
    loaded = LabTask.objects.get(pk=task.pk)
    assert (loaded.prompt, loaded.published) == ("From the file.", False)


def test_force_loads_unchanged_files_over_what_was_edited(lab, task):
    LabTask.objects.update(prompt="Mended.")
    load_labs(FIXTURES, force=True)
    assert LabTask.objects.get(pk=task.pk).prompt == task.prompt


def test_a_prompt_that_is_not_there_is_refused(offering, folder):
    (folder / "moe-balance-hbm.md").unlink()
    with pytest.raises(InvalidContent, match=r"prompt: moe-balance-hbm\.md"):
        load_labs(folder)
    assert not Lab.objects.exists()


def test_a_rubric_that_names_an_unknown_metric_is_refused_with_file_and_field(offering, folder):
    text = (folder / "moe-eplb.json").read_text().replace('"sampling_floor"', '"samplng_floor"')
    (folder / "moe-eplb.json").write_text(text)
    with pytest.raises(InvalidContent, match=r"moe-eplb\.json: rubric: .*'samplng_floor'"):
        load_labs(folder)
    assert not Lab.objects.exists()


def test_an_unknown_kind_of_task_is_refused(offering, folder):
    change(folder, kind="nonsense")
    with pytest.raises(InvalidContent, match="kind: The lab moe-eplb knows: balance-hbm"):
        load_labs(folder)


def test_a_task_without_its_activity_is_refused(offering, folder):
    change(folder, activity="nowhere")
    with pytest.raises(InvalidContent, match="load the course first"):
        load_labs(folder)


def test_an_unknown_field_is_refused_by_name(offering, folder):
    change(folder, colour="red")
    with pytest.raises(InvalidContent, match=r"tasks\.0\.colour"):
        load_labs(folder)


def test_an_empty_folder_is_refused(db, tmp_path):
    with pytest.raises(InvalidContent, match=r"there is no \*\.json"):
        load_labs(tmp_path)


def test_an_empty_rubric_is_refused_in_the_admins_own_check(task):
    task.rubric = {"criteria": []}
    with pytest.raises(ValidationError) as refusal:
        task.full_clean()
    assert "rubric" in refusal.value.message_dict


@pytest.mark.parametrize("field", ["title", "summary", "tasks.0.kind", "tasks.0.staff_points.0"])
def test_nul_in_a_file_is_refused_at_its_field(offering, folder, field):
    path = folder / "moe-eplb.json"
    content = json.loads(path.read_text())
    *way, last = [int(step) if step.isdigit() else step for step in field.split(".")]
    place = content
    for step in way:
        place = place[step]
    place[last] = "a\0b"
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidContent, match=rf"moe-eplb\.json: {re.escape(field)}: has characters"):
        load_labs(folder)
    assert not Lab.objects.exists()


def test_nul_in_a_prompt_is_refused_by_its_file(offering, folder):
    (folder / "moe-balance-hbm.md").write_bytes(b"Do it.\0")
    with pytest.raises(InvalidContent, match=r"prompt: moe-balance-hbm\.md: has NUL"):
        load_labs(folder)


def test_a_key_that_is_there_twice_is_refused_by_name(offering, folder):
    (folder / "moe-eplb.json").write_text('{"slug": "moe-eplb", "slug": "other"}')
    with pytest.raises(InvalidContent, match="the key 'slug' appears twice"):
        load_labs(folder)


def test_a_file_nested_too_deeply_is_refused_by_name(offering, folder):
    (folder / "moe-eplb.json").write_text("[" * 100_000)
    with pytest.raises(InvalidContent, match=r"moe-eplb\.json: maximum recursion"):
        load_labs(folder)
