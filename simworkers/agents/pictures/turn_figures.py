"""What each turn of a session brings to its replica, in tokens."""

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from simworkers.agents.measure import most_turns
from simworkers.agents.pictures.figure_parts import (
    HBM,
    HOST,
    OUTPUT,
    POOL,
    TOKENS,
    UNCACHED,
    Band,
    Label,
    named_ticks,
    percent,
    round_up,
    short,
)
from simworkers.drawing import VERMILION, Rows, Spec, colours, headline, tooltip

PARTS = {HBM: "hbm_tokens", HOST: "host_tokens", POOL: "pool_tokens", UNCACHED: "new_tokens"}
BAR = 0.42  # half of a bar, in turns
LEAST_TOP, LEAST_TURNS = 1000, 4  # of axes over next to nothing
HEIGHT = 340  # px


def draw_turn_tokens(metrics: dict[str, Any], params: dict[str, Any]) -> tuple[Spec, Rows]:
    """Two bands over a session's turns, prompts below and outputs above, each with its own axis. A slider picks the
    session: the axes of tokens stay, that of turns is as long as the session."""
    rows = sorted(metrics["turns"], key=lambda row: (row["session"], row["turn"]))
    by_session: dict[int, Rows] = defaultdict(list)
    for row in rows:
        by_session[row["session"]].append(row)
    prompts = Band(0, 1, round_up(max([LEAST_TOP, *map(_prompt, rows)])))
    outputs = Band(1.36, 0.5, round_up(max([LEAST_TOP, *(row["output_tokens"] for row in rows)])))
    spec = {
        "title": headline(
            {"expr": f"{json.dumps(_texts(by_session))}[session - 1]"},
            "prompts by where their KV was; ▼ another replica than the turn before",
        ),
        "height": HEIGHT,
        "params": [_slider(by_session, params["watched_session"])],
        "data": {"values": [_folded(number, found) for number, found in by_session.items()]},
        "transform": [
            {"filter": "datum.session == session"},
            {"flatten": ["turn", "replica", "moved", *TOKENS]},
            {"calculate": f"datum.turn - {BAR}", "as": "left"},
            {"calculate": f"datum.turn + {BAR}", "as": "right"},
        ],
        "layer": [
            _prompt_bars(prompts),
            _output_bars(outputs),
            _moves(prompts),
            *_axis_of("prompt tokens", prompts),
            *_axis_of("output tokens", outputs),
        ],
        "encoding": {
            "x": _turns_axis(by_session, most_turns(max(metrics["sessions"], 1))),
            "y": {
                "type": "quantitative",
                "title": None,
                "scale": {"domain": [0, 2.02], "nice": False},
                "axis": named_ticks([*_ticks(prompts), *_ticks(outputs)]) | {"domain": False},
            },
        },
    }
    return spec, [_in_ms(row) for row in rows]


def turns_shown(metrics: dict[str, Any]) -> str:
    """For the caption: which of a run's requests the figure has, and that its slider reaches more than one session."""
    rows, requests = metrics["turns"], metrics["requests"]
    sessions = {row["session"] for row in rows}
    moving = "Move the slider to another session. " if len(sessions) > 1 else ""
    if len(rows) == requests:
        return moving.rstrip()
    shown = f"{len(rows):,} of {requests:,} requests"
    # Rows that name no session count as sessions of one turn each, and are drawn as turns of a single one.
    if metrics["sessions"] == requests and any(row["turn"] > 1 for row in rows):
        return f"Shown: {shown}."
    return f"{moving}Shown: {len(sessions)} of {metrics['sessions']} sessions, main agents only, {shown}."


def _in_ms(row: dict[str, Any]) -> dict[str, Any]:
    """As a table tells it."""
    told = {
        "uncached_tokens" if name == "new_tokens" else name: value
        for name, value in row.items()
        if name != "ttft_us"
    }
    return told | {"ttft_ms": round(row["ttft_us"] / 1000, 3)}


def _slider(by_session: Mapping[int, Rows], watched: int) -> Spec:
    """Of all sessions, at the watched one if it has a turn to show."""
    most = max(by_session, default=1)
    started = min(watched, most)
    slider: Spec = {
        "name": "session",
        "value": started if started in by_session or not by_session else min(by_session),
    }
    if most > 1:
        slider["bind"] = {"input": "range", "min": 1, "max": most, "step": 1, "name": "Session "}
    return slider


def _turns_axis(by_session: Mapping[int, Rows], cut: int) -> Spec:
    """As long as the session at the slider. cut: turns of a session that are shown at most."""
    last = {session: max(row["turn"] for row in rows) for session, rows in by_session.items()}
    ends = [max(last.get(number, 0), LEAST_TURNS) for number in range(1, max(last, default=1) + 1)]
    return {
        "field": "left",
        "type": "quantitative",
        "title": "turn" if max(ends) < cut else f"turn, the first {cut} of each session",
        "scale": {"domainMin": 0.5, "domainMax": {"expr": f"{ends}[session - 1] + 0.5"}, "nice": False},
        "axis": {"format": "d", "tickMinStep": 1, "grid": False},
    }


def _texts(by_session: Mapping[int, Rows]) -> list[str]:
    """A headline for every place of the slider."""
    return [
        _headline(number, by_session.get(number, [])) for number in range(1, max(by_session, default=1) + 1)
    ]


def _prompt(row: dict[str, Any]) -> int:
    return sum(row[field] for field in PARTS.values())


def _folded(session: int, rows: Rows) -> dict[str, Any]:
    """One row a session: 1,200 single ones would be four times as long."""
    before = [rows[0]["replica"], *(row["replica"] for row in rows)]
    return {
        "session": session,
        "turn": [row["turn"] for row in rows],
        "replica": [row["replica"] for row in rows],
        "moved": [int(row["replica"] != last) for row, last in zip(rows, before, strict=False)],
        **{part: [row[field] for row in rows] for part, field in PARTS.items()},
        OUTPUT: [row["output_tokens"] for row in rows],
    }


def _axis_of(title: str, band: Band) -> list[Spec]:
    """The line of a band's own axis, and above it what it counts."""
    ends = {"y": {"datum": band.ground}, "y2": {"datum": band.ground + band.height}}
    return [
        {
            "data": {"values": [{}]},
            "mark": {"type": "rule", "aria": False},
            "encoding": {"x": {"value": 0}} | ends,
        },
        {
            "data": {"values": [{}]},
            "mark": {"type": "text", "text": title, "align": "left", "dy": -22, "aria": False},
            "encoding": {"x": {"value": 0}, "y": ends["y2"]},
        },
    ]


def _ticks(band: Band) -> list[tuple[float, Label]]:
    return band.ticks((0, "0"), (band.top / 2, short(band.top / 2)), (band.top, short(band.top)))


def _headline(session: int, rows: Rows) -> str:
    """Short: no page breaks the line of a text that a slider changes."""
    prompt, new = sum(map(_prompt, rows)), sum(row["new_tokens"] for row in rows)
    if not prompt:
        return f"Session {session}: no turn was served"
    return f"Session {session}: {percent(1 - new / prompt)} of {short(prompt)} tokens cached"


def _prompt_bars(band: Band) -> Spec:
    return {
        "transform": [
            {"fold": list(PARTS), "as": ["part", "tokens"]},
            {"filter": "datum.tokens > 0"},
            {"calculate": f"indexof({list(PARTS)!r}, datum.part)", "as": "order"},
            {
                "stack": "tokens",
                "groupby": ["turn"],
                "sort": [{"field": "order", "order": "ascending"}],
                "as": ["low", "high"],
            },
            {"calculate": band.at("datum.low"), "as": "bottom"},
            {"calculate": band.at("datum.high"), "as": "head"},
        ],
        "mark": {"type": "rect"},
        "encoding": _box("part"),
    }


def _output_bars(band: Band) -> Spec:
    return {
        "transform": [
            {"calculate": f"datum['{OUTPUT}']", "as": "tokens"},
            {"calculate": repr(OUTPUT), "as": "part"},
            {"calculate": band.at("0"), "as": "bottom"},
            {"calculate": band.at("datum.tokens"), "as": "head"},
        ],
        "mark": {"type": "rect"},
        "encoding": _box("part"),
    }


def _box(field: str) -> Spec:
    return {
        "x2": {"field": "right"},
        "y": {"field": "bottom"},
        "y2": {"field": "head"},
        "color": {"field": field, "type": "nominal", "scale": colours(TOKENS)},
        "tooltip": tooltip(turn="turn", part="which", tokens="tokens", replica="replica"),
    }


def _moves(band: Band) -> Spec:
    """Over each turn that another replica served than the one before."""
    return {
        "transform": [
            {"filter": "datum.moved == 1"},
            {"calculate": band.at(" + ".join(f"datum['{part}']" for part in PARTS)), "as": "head"},
        ],
        "mark": {
            "type": "point",
            "shape": "triangle-down",
            "filled": True,
            "opacity": 1,
            "size": 45,
            "yOffset": -7,
            "color": VERMILION,
        },
        "encoding": {"x": {"field": "turn", "type": "quantitative"}, "y": {"field": "head"}},
    }
