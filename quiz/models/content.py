"""What has been loaded from files."""

from django.db import models


class LoadedFile(models.Model):
    """The digest of a content file when it was last loaded.

    A file that has not changed since is left alone, so that a restart does not undo what an author has edited
    in the admin.
    """

    name = models.CharField(max_length=200, unique=True)
    digest = models.CharField(max_length=64)
    loaded_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return self.name
