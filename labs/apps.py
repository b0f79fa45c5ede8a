from django.apps import AppConfig

from simworkers import catalog


class LabsConfig(AppConfig):
    name = "labs"
    verbose_name = "Labs"

    def ready(self) -> None:
        """Take the labs' versions now, while the files are those that were started; later they may be replaced."""
        for name in catalog.job_names():
            catalog.engine_version(name)
