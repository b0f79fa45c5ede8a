from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from quiz.content import InvalidContent, read_course
from quiz.loading import load_course


class Command(BaseCommand):
    help = "Load or update a course from a folder. All or nothing; loading twice changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="For instance fixtures/frontier-serving/")
        parser.add_argument(
            "--force",
            action="store_true",
            help="load also files that have not changed since, over what was edited in the admin",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            content = read_course(options["folder"])
            lines = load_course(content, force=options["force"])
        except InvalidContent as exc:
            raise CommandError(str(exc)) from exc
        for line in lines or [f"course {content.course.slug}: nothing has changed"]:
            self.stdout.write(line)
