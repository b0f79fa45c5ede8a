"""`manage.py erase_learner LEARNER`: forget a person; grades and their record stay, behind a name that nobody bears."""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from labs.learner_data import erase_learner
from labs.management.learners import find_learner
from quiz.errors import Refusal


class Command(BaseCommand):
    help = "Erase a learner: name, address, runs, attempts, answers, explanations. Cannot be undone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("learner", help="username or public id")
        parser.add_argument("--yes", action="store_true", help="do not ask; needed where nobody can answer")

    def handle(self, *args: Any, learner: str, yes: bool, **options: Any) -> None:
        found = find_learner(learner)
        if not yes and not self.confirmed(f"{found} ({found.public_id})"):
            raise CommandError("nothing was erased")
        try:
            gone = erase_learner(found)
        except Refusal as exc:
            raise CommandError(f"nothing was erased: {exc.detail}") from exc
        self.stdout.write(", ".join(f"{count} {what}" for what, count in gone.items()) + " erased")

    def confirmed(self, who: str) -> bool:
        if not sys.stdin.isatty():
            raise CommandError("nothing was erased: nobody can be asked here; say --yes")
        return input(f"Erase {who}? This cannot be undone. [y/N] ").strip().lower() in {"y", "yes"}
