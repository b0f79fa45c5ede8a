"""Opening a run's event stream in a test, and reading it."""

import json
from typing import Any

from asgiref.sync import async_to_sync
from django.test import AsyncClient

from tests.labs.test_api import client_of


def ticket_for(place: str, learner: Any) -> str:
    answer = client_of(learner).post(f"{place}stream-tickets/")
    assert answer.status_code == 201, answer.content
    return answer.json()["ticket"]


def open_stream(path: str, query: str = "", **headers: str) -> tuple[Any, list[dict[str, Any]]]:
    """(response, its events) over ASGI, in the transaction of the test."""

    async def read() -> tuple[Any, list[dict[str, Any]]]:
        response: Any = await AsyncClient().get(f"{path}events/?{query}", headers=headers)
        if not response.streaming:
            return response, []
        return response, parse("".join([part.decode() async for part in response.streaming_content]))

    return async_to_sync(read)()


def parse(text: str) -> list[dict[str, Any]]:
    blocks = [block for block in text.split("\n\n") if "event: " in block]
    rows = [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]
    return [{**row, "data": json.loads(row["data"])} for row in rows]


def problem(response: Any) -> tuple[int, str]:
    assert response["Content-Type"] == "application/problem+json"
    return response.status_code, response.json()["type"].removeprefix("urn:staffloop:problem:")
