"""`manage.py regrade TASK`: what a mended rubric changes, listed; applied with --apply."""

import sys
from decimal import Decimal
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from labs.models import LabTask
from labs.regrading import CannotRegrade, GradeLine, Plan, RunChange, apply_regrade, plan_regrade


class Command(BaseCommand):
    help = "Judge a task's stored reports by its present rubric. Lists every change; writes nothing without --apply."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("task", help="slug of the task's activity, for instance moe-balance-hbm")
        parser.add_argument(
            "--apply", action="store_true", help="after the list: ask, then write the changes"
        )
        parser.add_argument("--yes", action="store_true", help="do not ask; needed where nobody can answer")
        parser.add_argument("--reason", default="", help="stands in the record of every grade changed")

    def handle(self, *args: Any, task: str, reason: str, **options: Any) -> None:
        row = LabTask.objects.select_related("activity", "lab").filter(activity__slug=task).first()
        if row is None:
            known = (
                ", ".join(LabTask.objects.order_by("activity__slug").values_list("activity__slug", flat=True))
                or "none"
            )
            raise CommandError(f"there is no task {task!r}; there are: {known}")
        try:
            plan = plan_regrade(row)
            self.show(plan)
            if plan.is_empty or not options["apply"]:
                return
            if not options["yes"] and not self.confirmed():
                raise CommandError("nothing was changed")
            apply_regrade(row, plan, reason=reason)
        except CannotRegrade as exc:
            raise CommandError(f"nothing was changed:\n{exc}") from exc
        self.stdout.write(f"applied: {len(plan.runs)} run(s), {len(plan.grades)} grade(s)")

    def show(self, plan: Plan) -> None:
        for change in plan.runs:
            self.stdout.write(run_line(change))
        for line in plan.grades:
            self.stdout.write(f"{whose(line)}  grade {scores(line.old_score, line.new_score)}")
        for line in plan.manual:
            stays = f"set by hand: stays {line.old_score}; the runs are worth {line.new_score}"
            self.stdout.write(f"{whose(line)}  grade {stays}")
        moved = sum(change.old_score != change.new_score for change in plan.runs)
        self.stdout.write(
            f"rubric {plan.rubric_hash}: of {plan.runs_seen} run(s) {moved} change their score, "
            f"{len(plan.runs) - moved} only their sheet; {len(plan.grades)} grade(s) change, "
            f"{len(plan.manual)} set by hand differ and stay"
        )
        if plan.reports_removed:
            self.stdout.write(f"{plan.reports_removed} run(s) have no report any more and keep their score")

    def confirmed(self) -> bool:
        if not sys.stdin.isatty():
            raise CommandError("nothing was changed: nobody can be asked here; say --yes")
        return input("Apply these changes? [y/N] ").strip().lower() in {"y", "yes"}


def run_line(change: RunChange) -> str:
    practice = ", practice" if change.practice else ""
    why = " · ".join(change.criteria) or "nothing but the note of the rubric"
    who = f"{change.learner} ({change.offering})  attempt {change.attempt}{practice}"
    return f"{who}  {scores(change.old_score, change.new_score)}  {why}  [run {change.public_id}]"


def whose(line: GradeLine) -> str:
    return f"{line.learner} ({line.offering})"


def scores(old: Decimal | None, new: Decimal) -> str:
    return f"{old} → {new}" if old != new else f"{new} as before"
