"""What learners read of the agent lab: its texts render as they are meant, and say what the code does."""

import json
import re
import tomllib

import pytest

from quiz.markdown import render
from simworkers.agents.serving.policies import POLICIES
from tests.labs.conftest import FIXTURES

LAB = json.loads((FIXTURES / "agent-routing.json").read_text())
PROMPTS = sorted(path.name for path in FIXTURES.glob("*.md"))


def prompt(name: str) -> str:
    return (FIXTURES / name).read_text()


def test_the_whole_score_stands_in_one_block_of_code():
    (block,) = re.findall(r"<pre>.*?</pre>", render(prompt("agent-route-by-score.md")), re.DOTALL)
    for weight in ("cached", "same_replica", "queued", "pending_tokens", "kv_held"):
        assert f"weight_{weight}" in block


@pytest.mark.parametrize("name", PROMPTS)
def test_no_line_of_a_prompt_begins_with_a_plus_that_makes_it_a_bullet(name):
    assert not re.search(r"^[+] ", prompt(name), re.MULTILINE)


def test_the_labs_page_tells_of_each_policy_once_what_it_looks_at():
    told = re.findall(r"<tr>\s*<td><code>(\w+)</code></td>\s*<td>.+?</td>\s*</tr>", render(LAB["summary"]))
    assert told == list(POLICIES)


@pytest.mark.parametrize("name", ["agent-best-throughput.md", "agent-survive-a-death.md"])
def test_a_task_that_a_policy_decides_says_where_the_policies_are_explained(name):
    assert 'href="/labs/agent-routing/"' in render(prompt(name))


def test_the_pipeline_task_says_that_the_run_around_the_probes_is_not_judged():
    text = prompt("agent-pipeline-or-tensor.md")
    assert "nobody judges it" in text and "`pp_wins_ratio`" in text and "`pp_loses_ratio`" in text


def test_the_section_on_sessions_names_every_task_of_the_agent_lab():
    course = FIXTURES.parent / "frontier-serving"
    titles = {
        one["slug"]: one["title"] for one in tomllib.loads((course / "course.toml").read_text())["activities"]
    }
    section = " ".join((course / "sections" / "05-sessions.md").read_text().split())
    for task in LAB["tasks"]:
        assert f"*{titles[task['activity']]}*" in section
