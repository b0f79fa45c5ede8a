"""What the admin does not offer: people's tokens, neither to see nor to make."""

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from labs.management.commands.bootstrap import make_author_group
from quiz.models import Learner


@pytest.fixture
def author(db: None) -> Learner:
    make_author_group()
    author = Learner.objects.create_user(username="author", is_staff=True)
    author.groups.add(*author.groups.model.objects.all())
    return author


def test_an_author_may_do_nothing_with_tokens(author: Learner) -> None:
    rights = Permission.objects.filter(group__user=author)
    assert rights.exists()
    assert not rights.filter(content_type__app_label="knox").exists()


@pytest.mark.parametrize("is_superuser", [False, True])
def test_the_admin_has_no_page_of_tokens_for_anyone(
    author: Learner, client: Client, is_superuser: bool
) -> None:
    Learner.objects.filter(pk=author.pk).update(is_superuser=is_superuser)
    author.refresh_from_db()
    client.force_login(author)
    assert client.get("/admin/knox/authtoken/").status_code == 404
    assert client.get("/admin/knox/authtoken/add/").status_code == 404
    assert "authtoken" not in client.get("/admin/").content.decode()
