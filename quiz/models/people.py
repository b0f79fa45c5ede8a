import uuid

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Lower


class Learner(AbstractUser):
    """Everyone who signs in: learners, authors, staff. The public id is what other systems see."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)

    class Meta(AbstractUser.Meta):
        verbose_name = "learner"
        verbose_name_plural = "learners"
        constraints = [
            # "Ada" beside "ada" would let one pass for the other, also where both register in the same moment.
            models.UniqueConstraint(
                Lower("username"),
                name="learner_username_once_in_any_case",
                violation_error_message="A learner with this name in other capitals exists.",
            )
        ]
