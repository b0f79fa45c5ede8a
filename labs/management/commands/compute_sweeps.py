from typing import Any

from django.core.management.base import BaseCommand, CommandError

from labs.models import Lab, Sweep
from labs.sweeps import compute_sweep
from simworkers.catalog import engine_version


class Command(BaseCommand):
    help = "Compute the explore sweep of every lab in this process, where it is not ready yet; a failed one again."

    def handle(self, *args: Any, **options: Any) -> None:
        failed = []
        for lab in Lab.objects.order_by("pk"):
            if lab.job.sweep is None:
                continue
            sweep, _ = Sweep.objects.get_or_create(lab=lab, engine_version=engine_version(lab.slug))
            Sweep.objects.filter(pk=sweep.pk, state=Sweep.State.FAILED).update(
                state=Sweep.State.WAITING, tries=0, reason="", sent_at=None
            )
            compute_sweep(sweep.pk)
            sweep.refresh_from_db()
            self.stdout.write(f"{lab.slug}: {sweep.get_state_display().lower()}")
            if sweep.state != Sweep.State.READY:
                failed.append(f"{lab.slug}: {sweep.reason or 'another process is computing it'}")
        if failed:
            raise CommandError("\n".join(failed))
