"""A learner's account over REST."""

import secrets
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

PATIENCE_S = 1200


class Api:
    """A new learner's account; exits with the problem document where a call is refused."""

    def __init__(self, base: str) -> None:
        self.http = httpx.Client(base_url=f"{base}/api/v1/", timeout=120, trust_env=False)
        self.username = f"demo-{secrets.token_hex(4)}"
        credentials = {"username": self.username, "password": secrets.token_urlsafe(12)}
        self.post("learners/", credentials)
        self.http.headers["Authorization"] = f"Bearer {self.post('tokens/', credentials)['token']}"

    def get(self, path: str) -> Any:
        return self.checked(self.http.get(path)).json()

    def post(self, path: str, body: Any = None) -> Any:
        return self.checked(self.http.post(path, json=body or {})).json()

    def put(self, path: str, body: Any) -> Any:
        return self.checked(self.http.put(path, json=body)).json()

    def checked(self, response: httpx.Response) -> httpx.Response:
        if response.is_error:
            sys.exit(f"{response.request.method} {response.url} → {response.status_code}: {response.text}")
        return response

    def watch(self, path: str, done: Callable[[Any], bool]) -> Iterator[Any]:
        """The resource at every change until `done` holds of it; an unchanged one answers 304."""
        headers: dict[str, str] = {}
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            response = self.http.get(path, headers=headers)
            if response.status_code != 304:
                resource = self.checked(response).json()
                headers = {"If-None-Match": response.headers["ETag"]}
                yield resource
                if done(resource):
                    return
            time.sleep(0.2)
        sys.exit(f"{path}: not done within {PATIENCE_S} s")
