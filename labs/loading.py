"""Labs and their tasks from files, so that a course is data: see fixtures/labs/.

A lab whose files have not changed since they were last loaded is left alone, so that what an author edited in the
admin (a mended rubric, a task taken back) stays when the site is started again.
"""

import hashlib
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from pydantic import BaseModel, ConfigDict, Field
from pydantic import ValidationError as InvalidFile

from labs.models import Lab, LabTask
from quiz import storable
from quiz.content import InvalidContent, dotted
from quiz.models import Activity, LoadedFile
from simworkers import strict_json


class LeaderboardFile(BaseModel):
    """The metric of the lab by which those are ranked who wish to be."""

    model_config = ConfigDict(extra="forbid")

    metric: str
    better: LabTask.Better


class TaskFile(BaseModel):
    """A task beside its lab. `prompt` names a Markdown file in the same folder."""

    model_config = ConfigDict(extra="forbid")

    activity: str
    kind: str
    attempts_allowed: int = Field(3, ge=1, le=100)
    prompt: str
    rubric: dict[str, Any]
    staff_points: list[str] = []
    leaderboard: LeaderboardFile | None = None


class LabFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    slug: str
    title: str
    summary: str = ""
    tasks: list[TaskFile] = []


def read_lab(path: Path) -> LabFile:
    try:
        parsed = strict_json.parse(path.read_text("utf-8"))
        if faults := list(storable.faults(parsed)):
            raise InvalidContent([f"{path}: {dotted(pointer)}: {text}" for pointer, text in faults])
        return LabFile.model_validate(parsed)
    except InvalidFile as exc:
        raise InvalidContent(
            [f"{path}: {'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in exc.errors()]
        ) from exc
    except InvalidContent:
        raise
    except (OSError, ValueError, RecursionError) as exc:
        raise InvalidContent([f"{path}: {exc}"]) from exc


@transaction.atomic
def load_labs(folder: Path, *, force: bool = False) -> list[Lab]:
    """Create or update every lab of the folder; all or nothing. `force` loads unchanged files too."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise InvalidContent([f"{folder}: there is no *.json file"])
    return [load_lab(path, force=force) for path in paths]


def load_lab(path: Path, *, force: bool = False) -> Lab:
    content = read_lab(path)
    loaded = {"name": f"labs/{path.name}", "digest": digest_of(path, content)}
    lab = Lab.objects.filter(slug=content.slug).first() or Lab(slug=content.slug)
    if lab.pk and not force and LoadedFile.objects.filter(**loaded).exists():
        return lab
    lab.title, lab.summary = content.title, content.summary
    save(lab, path)
    for task in content.tasks:
        load_task(lab, task, path)
    LoadedFile.objects.update_or_create(name=loaded["name"], defaults=loaded)
    return lab


def digest_of(path: Path, content: LabFile) -> str:
    """Of the lab's file and of all prompts that it names."""
    digest = hashlib.sha256(path.read_bytes())
    for task in content.tasks:
        digest.update(prompt_of(path, task).encode())
    return digest.hexdigest()


def prompt_of(path: Path, task: TaskFile) -> str:
    try:
        text = (path.parent / task.prompt).read_text("utf-8")
    except (OSError, ValueError) as exc:
        raise InvalidContent([f"{path}: prompt: {task.prompt}: {exc}"]) from exc
    if storable.unstorable(text):
        raise InvalidContent([f"{path}: prompt: {task.prompt}: has NUL characters: it is no text"])
    return text


def load_task(lab: Lab, content: TaskFile, path: Path) -> LabTask:
    activity = Activity.objects.filter(slug=content.activity).first()
    if activity is None:
        raise InvalidContent([f"{path}: activity: {content.activity} is not there; load the course first"])
    # Published when it is new; afterwards that is the author's decision.
    task = LabTask.objects.filter(activity=activity).first() or LabTask(activity=activity, published=True)
    task.lab, task.kind, task.rubric = lab, content.kind, content.rubric
    task.staff_points = content.staff_points
    board = content.leaderboard
    task.leaderboard = board is not None
    task.leaderboard_metric = board.metric if board else ""
    task.leaderboard_better = board.better if board else LabTask.Better.MORE
    task.prompt, task.attempts_allowed = prompt_of(path, content), content.attempts_allowed
    save(task, path)
    return task


def save(row: Lab | LabTask, path: Path) -> None:
    try:
        row.full_clean()
    except ValidationError as exc:
        raise InvalidContent(
            [f"{path}: {field}: {text}" for field, texts in exc.message_dict.items() for text in texts]
        ) from exc
    row.save()
