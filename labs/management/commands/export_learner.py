"""`manage.py export_learner LEARNER`: all that the site holds of a person, as one JSON document."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from labs.learner_data import learner_data
from labs.management.learners import find_learner


class Command(BaseCommand):
    help = "Write all that the site holds of a learner as JSON. What is hidden before a run is graded stays hidden."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("learner", help="username or public id")
        parser.add_argument("--reports", action="store_true", help="with the whole report of every run")
        parser.add_argument("--out", type=Path, metavar="FILE", help="a new file, instead of stdout")

    def handle(self, *args: Any, learner: str, reports: bool, out: Path | None, **options: Any) -> None:
        document = learner_data(find_learner(learner), reports=reports)
        text = json.dumps(document, ensure_ascii=False, indent=2)
        if out is None:
            self.stdout.write(text)
            return
        try:
            out.touch(mode=0o600, exist_ok=False)  # it is somebody's data: for nobody else's eyes
            out.write_text(text + "\n", "utf-8")
        except OSError as exc:
            raise CommandError(f"out: cannot write {out}: {exc.strerror}") from exc
        self.stdout.write(
            f"{out}: {len(document['runs'])} run(s), {len(document['quiz_attempts'])} quiz attempt(s)"
        )
