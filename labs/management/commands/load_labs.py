from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from labs.loading import load_labs
from quiz.content import InvalidContent


class Command(BaseCommand):
    help = "Load or update the labs and their tasks from a folder. All or nothing; loading twice changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="For instance fixtures/labs/")
        parser.add_argument(
            "--force",
            action="store_true",
            help="load also labs whose files have not changed since, over what was edited in the admin",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            labs = load_labs(options["folder"], force=options["force"])
        except InvalidContent as exc:
            raise CommandError(str(exc)) from exc
        for lab in labs:
            self.stdout.write(f"{lab.slug}: {lab.tasks.count()} task(s)")
