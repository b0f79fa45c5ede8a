"""The key that an installation makes for itself."""

import secrets
import stat
from concurrent.futures import ThreadPoolExecutor

from config.environment import secret_key


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
