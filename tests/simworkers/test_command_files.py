"""Files that a command line names: what cannot be read or written is one line and exit 2."""

import json
import os

import pytest

from simworkers.__main__ import main
from simworkers.command_files import InvalidInput, write_whole
from tests.simworkers.shells import TINY, refused, write


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{", "params: {file} is not JSON"),
        ("[1]", "params: {file} holds no JSON object"),
        ('{"hbm_budget_gb": NaN}', "params: {file} is not JSON: NaN is not a JSON number"),
        ("[" * 200_000, "params: {file} is nested too deeply"),
    ],
)
def test_unreadable_parameter_files_are_refused(tmp_path, capsys, content, line):
    file = write(tmp_path / "p.json", content)
    (found,) = refused(capsys, "run", "moe-eplb", "--params", file)
    assert found.startswith(line.format(file=file))


def test_bytes_that_are_no_text_are_refused(tmp_path, capsys):
    (tmp_path / "p.json").write_bytes(b"\xff\xfe\x00")
    assert refused(capsys, "balance", str(tmp_path / "p.json"))[0].endswith("is not UTF-8 text")


def test_a_huge_file_is_refused_without_being_parsed(tmp_path, capsys):
    with (tmp_path / "big.json").open("wb") as file:
        file.truncate(33 * 2**20)
    assert refused(capsys, "balance", str(tmp_path / "big.json"))[0].endswith("is larger than 32 MiB")


@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "nothing"])
def test_only_a_regular_file_is_written_and_nothing_else_is_replaced(kind, tmp_path, capsys):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    name = {"pipe": str(pipe), "link to a pipe": str(link), "nothing": ""}[kind]
    assert refused(capsys, "run", "moe-eplb", *TINY, "--out", name) == [f"out: cannot write {name}".strip()]
    assert pipe.is_fifo() and link.is_symlink()


def test_a_file_behind_a_link_is_written_with_the_usual_mode(tmp_path, capsys):
    file, link, usual = tmp_path / "report.json", tmp_path / "link", tmp_path / "usual"
    usual.touch()
    link.symlink_to(file)
    assert main(["run", "moe-eplb", *TINY, "--out", str(link)]) == 0
    assert link.is_symlink()
    assert file.stat().st_mode == usual.stat().st_mode
    assert json.loads(file.read_text()) == json.loads(capsys.readouterr().out)


@pytest.fixture
def no_place(tmp_path):
    """Names under which nothing can be read or written."""
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    return {
        "too long": "n" * 300,
        "in no folder": str(tmp_path / "none" / "file"),
        "below a file": f"{__file__}/file",
        "a circle": str(circle),
        "no name": "nul\0",
        "a folder": str(tmp_path),
    }


PLACES = ("too long", "in no folder", "below a file", "a circle", "no name", "a folder")


@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_cannot_be_written_is_one_line_before_anything_runs(place, no_place, capsys):
    (line,) = refused(capsys, "run", "moe-eplb", *TINY, "--out", no_place[place])
    assert line.startswith("out: cannot write ")


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (["run", "moe-eplb", "--params"], "params"),
        (["run", "multimodal-cache", "--image"], "image"),
        (["run", "agent-routing", "--trace"], "trace"),
        (["balance"], "file"),
        (["replay"], "trace"),
    ],
)
@pytest.mark.parametrize("place", PLACES)
def test_a_file_that_cannot_be_read_is_one_line(command, field, place, no_place, capsys):
    (line,) = refused(capsys, *command, no_place[place])
    assert line.startswith(f"{field}: ") and ("cannot read" in line or "is no file" in line)


def test_a_report_that_cannot_be_written_leaves_no_draft(tmp_path, capsys):
    with pytest.raises(InvalidInput, match=r"^out: cannot write"):
        write_whole(tmp_path / ("n" * 300), "{}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["run", "moe-eplb", "--params"], ["balance"]])
def test_a_key_that_is_there_twice_is_refused_by_name(tmp_path, capsys, command):
    file = write(tmp_path / "p.json", '{"top_k": 1, "top_k": 2}')
    assert refused(capsys, *command, file)[0].endswith("the key 'top_k' appears twice")


@pytest.mark.parametrize("depth", [300, 900])
def test_deep_nesting_is_refused_without_a_traceback(tmp_path, capsys, depth):
    file = write(tmp_path / "p.json", '{"placement": ' + "[" * depth + "]" * depth + "}")
    assert len(refused(capsys, "run", "moe-eplb", "--params", file)) == 1
