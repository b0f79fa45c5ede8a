import uuid
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models.functions import Lower

from quiz.names import key_of

# A letter may become three when capitals are folded.
KEY_LENGTH = 3 * 150


class Learner(AbstractUser):
    """Everyone who signs in: learners, authors, staff. The public id is what other systems see."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    name_key = models.CharField(
        max_length=KEY_LENGTH,
        db_default="",
        editable=False,
        help_text="The username without what the eye overlooks: who else's name passes for it.",
    )

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
        indexes = [models.Index(fields=["name_key"], name="learner_name_key")]

    def save(self, *args: Any, **kwargs: Any) -> None:
        """With the key of the username as it is now."""
        self.name_key = key_of(self.username)[:KEY_LENGTH]
        named = kwargs.get("update_fields")
        if named is not None and "username" in named:
            kwargs["update_fields"] = {*named, "name_key"}
        super().save(*args, **kwargs)
