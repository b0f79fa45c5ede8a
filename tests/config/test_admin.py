"""What the admin does not offer (people's tokens, neither to see nor to make), and addresses that nobody meant."""

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

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


QUERIES = [
    "created_at__year=99999",
    "created_at__year=0",
    "started_at__year=99999",
    "created_at__month=99",
    "id__exact=" + 30 * "9",
    "state__exact=%00",
    "q=%00",
    "p=" + 30 * "9",
    "score__gte=1e99999",
]


@pytest.mark.parametrize("query", QUERIES)
def test_no_address_of_a_list_is_a_server_error(author: Learner, query: str) -> None:
    Learner.objects.filter(pk=author.pk).update(is_superuser=True)
    client = Client()
    client.force_login(Learner.objects.get(pk=author.pk))
    for model in admin.site._registry:
        url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        assert client.get(f"{url}?{query}").status_code < 500, url
