"""The key that an installation makes for itself, where it keeps what is handed in, and limits that hang together."""

import os
import secrets
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core.exceptions import ImproperlyConfigured

from config.environment import secret_key, storage_settings


def test_the_embedded_default_keeps_the_key_it_made_for_this_user_alone(tmp_path):
    first = secret_key(embedded=True, var_dir=tmp_path)
    assert len(first) >= 48
    assert secret_key(embedded=True, var_dir=tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == ["secret_key"]
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600


def test_processes_that_start_together_agree_on_one_whole_key(tmp_path, monkeypatch):
    def seen_meanwhile(size):
        # Whoever looks while a key is being made must not find an empty one.
        assert not (tmp_path / "secret_key").exists() or (tmp_path / "secret_key").read_text()
        return made(size)

    made = secrets.token_urlsafe
    monkeypatch.setattr(secrets, "token_urlsafe", seen_meanwhile)
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: secret_key(embedded=True, var_dir=tmp_path), range(8)))
    assert len(keys) == 1
    assert len(keys.pop()) >= 48


def test_a_folder_is_the_storage_unless_another_is_named(tmp_path, monkeypatch):
    folder = storage_settings("STORE", tmp_path)
    assert folder["BACKEND"] == "django.core.files.storage.FileSystemStorage"
    assert folder["OPTIONS"]["location"] == str(tmp_path)
    monkeypatch.setenv("STORE", "storages.backends.s3.S3Storage")
    monkeypatch.setenv("STORE_OPTIONS", '{"bucket_name": "traces"}')
    named = {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": {"bucket_name": "traces"}}
    assert storage_settings("STORE", tmp_path) == named


@pytest.mark.parametrize(
    ("backend", "options", "said"),
    [
        ("S3", "", "STORE must be a dotted path"),
        ("a.b c", "", "STORE must be a dotted path"),
        ("a.B", "[]", "STORE_OPTIONS must be a JSON object"),
        ("a.B", "{", "STORE_OPTIONS must be a JSON object"),
        ("", "{}", "STORE_OPTIONS says how, and STORE not which storage"),
    ],
)
def test_a_storage_that_is_said_wrongly_stops_the_process(tmp_path, monkeypatch, backend, options, said):
    monkeypatch.setenv("STORE", backend)
    monkeypatch.setenv("STORE_OPTIONS", options)
    with pytest.raises(ImproperlyConfigured, match=said):
        storage_settings("STORE", tmp_path)


@pytest.mark.parametrize(
    ("run_mib", "check_mib", "is_refused"), [(512, 512, True), (512, 511, False), (512, None, False)]
)
def test_a_check_of_a_trace_may_not_take_the_memory_of_a_whole_run(tmp_path, run_mib, check_mib, is_refused):
    env = os.environ | {"STAFFLOOP_VAR": str(tmp_path), "STAFFLOOP_RUN_MEMORY_LIMIT_MIB": str(run_mib)}
    if check_mib is not None:
        env |= {"STAFFLOOP_TRACE_CHECK_MEMORY_MIB": str(check_mib)}
    program = [sys.executable, "-c", "import config.settings"]
    done = subprocess.run(program, capture_output=True, text=True, env=env)
    said = "STAFFLOOP_TRACE_CHECK_MEMORY_MIB must be less than STAFFLOOP_RUN_MEMORY_LIMIT_MIB"
    assert (done.returncode != 0, said in done.stderr) == (is_refused, is_refused), done.stderr
