"""Labs and tasks from files, and an author's edits of them in the admin."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from labs.loading import InvalidContent, load_labs
from labs.models import Lab, LabTask
from quiz.models import Learner
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


@pytest.fixture
def author(client: Any, db: None) -> Any:
    client.force_login(Learner.objects.create_superuser(username="root"))
    return client


def test_the_admin_refuses_a_rubric_with_an_unknown_metric_beside_its_field(author, task):
    rubric = json.loads(json.dumps(task.rubric).replace("sampling_floor", "no_such_metric"))
    form = {
        "activity": task.activity_id,
        "lab": task.lab_id,
        "kind": task.kind,
        "prompt": task.prompt,
        "rubric": json.dumps(rubric),
        "attempts_allowed": 3,
        "published": "on",
    }
    page = author.post(f"/admin/labs/labtask/{task.pk}/change/", form)
    assert page.status_code == 200
    assert "no single-number metric &#x27;no_such_metric&#x27;" in page.content.decode()
    task.refresh_from_db()
    assert "sampling_floor" in json.dumps(task.rubric)


@pytest.mark.parametrize("model", ["lab", "labtask", "taskattempt", "run"])
def test_every_list_of_the_admin_opens(author, attempt, model):
    assert author.get(f"/admin/labs/{model}/").status_code == 200


def test_a_run_can_be_read_and_not_typed_in_the_admin(author, attempt):
    from tests.labs.test_services import submit

    run = submit(attempt)
    page = author.get(f"/admin/labs/run/{run.pk}/change/")
    assert page.status_code == 200
    assert b'name="score"' not in page.content


def test_a_file_nested_too_deeply_is_refused_by_name(offering, folder):
    (folder / "moe-eplb.json").write_text("[" * 100_000)
    with pytest.raises(InvalidContent, match=r"moe-eplb\.json: maximum recursion"):
        load_labs(folder)
