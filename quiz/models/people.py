import uuid

from django.contrib.auth.models import AbstractUser
from django.db import models


class Learner(AbstractUser):
    """Everyone who signs in: learners, authors, staff. The public id is what other systems see."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)

    class Meta(AbstractUser.Meta):
        verbose_name = "learner"
        verbose_name_plural = "learners"
