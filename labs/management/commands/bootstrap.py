"""Make an empty folder, or an older installation, ready to serve."""

import json
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser

from quiz.models import Learner, Offering
from quiz.services import enroll, issue_token

# What an author may do in the admin; everything else of these apps is there to read.
AUTHORED = ["course", "section", "activity", "quiz", "quizquestion", "question", "questionversion", "option"]
AUTHORED += ["lab", "labtask", "trace", "leaderboardentry"]


class Command(BaseCommand):
    help = "Migrate, collect the static files, load the course and the labs. Running it again does no harm."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--people",
            action="store_true",
            help="make a learner and an author to sign in with, and print their passwords and a token",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=0)
        call_command("collectstatic", verbosity=0, interactive=False)
        call_command("load_course", settings.BASE_DIR / "fixtures" / "frontier-serving", stdout=self.stdout)
        call_command("load_labs", settings.BASE_DIR / "fixtures" / "labs", stdout=self.stdout)
        make_author_group()
        if options["people"]:
            self.print_people()

    def print_people(self) -> None:
        passwords = remembered_passwords(settings.VAR_DIR / "people.json")
        learner = person("learner", passwords["learner"])
        author = person("author", passwords["author"], is_staff=True)
        author.groups.add(Group.objects.get(name="Authors"))
        for offering in Offering.objects.filter(self_enrolment=True):
            enroll(learner=learner, offering=offering)
        _, token = issue_token(learner=learner)
        self.stdout.write(f"learner   {learner.username} / {passwords['learner']}")
        self.stdout.write(f"author    {author.username} / {passwords['author']}  (at /admin/)")
        self.stdout.write(f"token     {token}  (the learner's: Authorization: Bearer …)")


def make_author_group() -> None:
    group, _ = Group.objects.get_or_create(name="Authors")
    ours = Permission.objects.filter(content_type__app_label__in=["quiz", "labs"])
    group.permissions.set(
        ours.filter(content_type__model__in=AUTHORED) | ours.filter(codename__startswith="view_")
    )


def remembered_passwords(path: Path) -> dict[str, str]:
    """Random passwords, kept for the next start, readable by this user alone."""
    if not path.exists():
        fresh = path.with_suffix(".new")
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps({name: secrets.token_urlsafe(9) for name in ("learner", "author")}))
        fresh.replace(path)
    passwords: dict[str, str] = json.loads(path.read_text())
    return passwords


def person(username: str, password: str, *, is_staff: bool = False) -> Learner:
    """Our own account of that name. CommandError where somebody else has taken it, who would become an author."""
    learner, created = Learner.objects.get_or_create(username=username, defaults={"is_staff": is_staff})
    if created:
        learner.set_password(password)
        learner.save()
    elif not learner.check_password(password):
        raise CommandError(
            f"The account {username} has another password than the one kept for it; remove one."
        )
    return learner
