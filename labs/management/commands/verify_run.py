"""`manage.py verify_run ID`: compute a stored run again and say how equal it came out. Never writes."""

import json
import sys
import uuid
from collections import Counter
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import QuerySet

from labs.models import Run
from labs.verification import Verification, verify_run

PARTS = ("lab", "task_attempt__task")


class Command(BaseCommand):
    help = (
        "Compute runs again from their stored parameters and seed, and compare. "
        "Exit status: 0 all equal, 1 one is different, 2 one could not be compared."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", nargs="*", help="public id or primary key of a run")
        parser.add_argument("--all-graded", action="store_true", help="every graded run, the newest first")
        parser.add_argument("--limit", type=int, help="with --all-graded: at most so many")
        parser.add_argument("--json", action="store_true", help="one JSON document on stdout")

    def handle(self, *args: Any, **options: Any) -> None:
        found: list[Verification] = []
        for key in self.chosen(options):
            run = Run.objects.select_related(*PARTS).get(pk=key)
            one = verify_run(run)
            found.append(one)
            if not options["json"]:
                self.show(one)
        counts = Counter(str(one.verdict) for one in found)
        if options["json"]:
            document = {"runs": [one.as_json() for one in found], "counts": counts}
            self.stdout.write(json.dumps(document, indent=2))
        elif len(found) != 1:
            self.stdout.write(", ".join(f"{n} {verdict}" for verdict, n in counts.items()) or "no graded run")
        statuses = {one.exit_status for one in found}
        sys.exit(1 if 1 in statuses else max(statuses, default=0))

    def chosen(self, options: dict[str, Any]) -> list[int]:
        """Primary keys; reports are read one by one."""
        if options["all_graded"] == bool(options["id"]):
            raise CommandError("name runs, or say --all-graded", returncode=2)
        if options["limit"] is not None and (options["limit"] < 1 or not options["all_graded"]):
            raise CommandError(
                "--limit is a whole number of at least 1, and goes with --all-graded", returncode=2
            )
        if options["all_graded"]:
            newest = Run.objects.filter(state=Run.State.GRADED).order_by("-finished_at", "-pk")
            return list(newest.values_list("pk", flat=True)[: options["limit"]])
        return [self.find(text) for text in options["id"]]

    def find(self, text: str) -> int:
        rows: QuerySet[Run] = Run.objects.none()
        if text.isdigit():
            rows = Run.objects.filter(pk=int(text))
        else:
            try:
                rows = Run.objects.filter(public_id=uuid.UUID(text))
            except ValueError:
                raise CommandError(f"{text!r} is neither a public id nor a number", returncode=2) from None
        key: int | None = rows.values_list("pk", flat=True).first()
        if key is None:
            raise CommandError(f"there is no run {text}", returncode=2)
        return key

    def show(self, one: Verification) -> None:
        how = f" ({one.comparison} comparison)" if one.comparison else ""
        self.stdout.write(f"run {one.run}: {one.verdict}{how}")
        for reason in one.reasons:
            self.stdout.write(f"  {reason}")
        for difference in one.differences:
            self.stdout.write(f"  {difference}")
        if one.differences_total > len(one.differences):
            self.stdout.write(f"  … {one.differences_total} differences in all")
        marks = {True: "stands", False: "DOES NOT STAND", None: ""}
        self.stdout.write(f"  score: {one.score} {marks[one.score_stands]}".rstrip())
