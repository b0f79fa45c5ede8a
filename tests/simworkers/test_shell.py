"""The shell as others call it: JSON alone on stdout, one `field: message` a line on stderr, exit codes."""

import json
import os
import subprocess
import sys

import pytest

from simworkers import catalog
from simworkers.__main__ import main
from simworkers.jobs import Invariant, Report
from simworkers.multimodal.clients import encode_png
from simworkers.multimodal.pictures import draw_picture
from tests.simworkers.shells import CASE, ROOT, TINY, refused, shell, write


def test_list_names_every_lab_and_each_of_its_tasks_on_a_line():
    done = shell("list")
    expected = []
    for job in map(catalog.get_job, catalog.job_names()):
        expected += [f"{job.name}: {job.title}", *(f"  {task}" for task in job.tasks)]
    assert done.stdout.splitlines() == expected
    assert done.returncode == 0


def test_list_tells_the_schemas_of_every_lab_to_who_asks_for_them():
    done = shell("list", "--schemas")
    labs = {lab["name"]: lab for lab in json.loads(done.stdout)}
    assert list(labs) == list(catalog.job_names())
    assert labs["moe-eplb"]["params"]["properties"]["num_gpus"]["default"] == 4
    assert done.returncode == 0
    assert max(map(len, done.stdout.splitlines())) < 2000  # for eyes as well


def test_run_prints_one_object_and_progress_apart(tmp_path):
    out = tmp_path / "report.json"
    done = shell("run", "moe-eplb", *TINY, "--seed", "3", "--out", str(out))
    report = json.loads(done.stdout)
    keys = {"lab", "engine_version", "seed", "params", "metrics", "invariants", "provenance"}
    assert set(report) == keys
    assert report["seed"] == 3
    assert report["params"]["num_steps"] == 1
    assert done.stderr.splitlines()[-1] == "step 2 of 2"
    assert done.returncode == 0
    assert json.loads(out.read_text()) == report
    assert list(tmp_path.iterdir()) == [out]


def test_metrics_alone_stand_one_a_line_with_their_units(tmp_path):
    out = tmp_path / "report.json"
    done = shell("run", "moe-eplb", *TINY, "--metrics", "--out", str(out))
    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    metrics = json.loads(out.read_text())["metrics"]
    assert lines["max_over_mean_mean"] == [str(metrics["max_over_mean_mean"]), "ratio"]
    assert all(not isinstance(metrics[name], list | dict) for name in lines)


def test_a_picture_of_ones_own_is_served(tmp_path):
    picture = tmp_path / "picture.png"
    picture.write_bytes(encode_png(draw_picture("dashboard", 1, 96, 64)))
    small = (
        "--set",
        "users=1",
        "--set",
        "turns=1",
        "--set",
        "cluster_gpus=2",
        "--set",
        "cluster_encoder_workers=0",
    )
    done = shell("run", "multimodal-cache", "--image", str(picture), *small)
    report = json.loads(done.stdout)
    assert report["params"]["picture"] == "own"
    assert report["metrics"]["turns"][0]["pictures"][0]["file_bytes"] == picture.stat().st_size


def test_a_picture_that_is_none_is_named(tmp_path, capsys):
    picture = tmp_path / "cut.png"
    picture.write_bytes(encode_png(draw_picture("dashboard", 1, 96, 64))[:60])
    assert main(["run", "multimodal-cache", "--image", str(picture)]) == 2
    assert capsys.readouterr().err.startswith("own_image: image: ")


SESSION = {
    "id": "s",
    "block_size": 4,
    "requests": [
        {"t": 0.0, "in": 8, "out": 1, "hash_ids": [1, 2]},
        {"t": 1.0, "in": 12, "out": 1, "hash_ids": [1, 2, 3]},
    ],
}


def test_replay_prints_hits_alone_and_says_what_it_refused(tmp_path):
    trace = write(tmp_path / "trace.jsonl", json.dumps(SESSION) + "\nnonsense\n")
    done = shell("replay", trace)
    assert json.loads(done.stdout) == {"hit_blocks": 2, "hit_tokens": 8, "input_tokens": 20}
    assert done.stderr.startswith("refused: line 2: is not JSON")
    assert done.returncode == 0


def test_replay_names_a_thousand_lines_that_it_refused_and_counts_the_others(tmp_path, capsys):
    trace = write(tmp_path / "trace.jsonl", json.dumps(SESSION) + "\n1" * 3005)
    assert main(["replay", trace]) == 0
    *named, rest = capsys.readouterr().err.splitlines()
    assert (len(named), rest) == (1000, "2,005 more were refused or repaired")


def test_replay_keeps_no_more_blocks_than_its_capacity(tmp_path, capsys):
    trace = write(tmp_path / "trace.jsonl", json.dumps(SESSION))
    assert main(["replay", trace, "--capacity-blocks", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["hit_blocks"] == 1


def test_a_lab_that_takes_no_picture_says_so(tmp_path, capsys):
    assert main(["run", "moe-eplb", "--image", "any.png"]) == 2
    assert capsys.readouterr().err == "image: moe-eplb takes no picture\n"


def test_values_read_as_json_else_as_string_and_override_the_file(tmp_path, capsys):
    params = write(tmp_path / "p.json", {"num_layers": 3, "skew_domain": "german", "eplb": False})
    assert (
        main(
            [
                "run",
                "moe-eplb",
                "--params",
                params,
                *TINY,
                "--set",
                "skew_domain=french",
                "--set",
                "eplb=true",
            ]
        )
        == 0
    )
    used = json.loads(capsys.readouterr().out)["params"]
    assert (used["num_layers"], used["skew_domain"], used["eplb"]) == (1, "french", True)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["replay", "nope.jsonl"], ["trace: cannot read 'nope.jsonl': No such file or directory"]),
        (["replay", os.devnull], ["trace: there is no line in this trace"]),
        (["replay", os.devnull, "--capacity-blocks", "0"], ["capacity-blocks: must be at least 1, not 0"]),
        (
            ["run", "nope"],
            ["lab: there is no lab 'nope'; there are: moe-eplb, multimodal-cache, agent-routing"],
        ),
        (["run", "moe-eplb", "--set", "top_k"], ["set: 'top_k' is not name=value"]),
        (["run", "moe-eplb", "--set", "nope=1"], ["nope: Extra inputs are not permitted"]),
        (["run", "moe-eplb", "--seed", "-1"], ["seed: must lie in 0 … 2**63 − 1"]),
        (["run", "moe-eplb", "--seed", "x"], ["seed: invalid int value: 'x'"]),
        (
            ["run", "moe-eplb", "--params", "/no/such"],
            ["params: cannot read '/no/such': No such file or directory"],
        ),
        (["run", "moe-eplb", "--out", "/no/such/file"], ["out: cannot write /no/such/file"]),
        (["balance", "/no/such"], ["file: cannot read '/no/such': No such file or directory"]),
        (["run"], ["arguments: the following arguments are required: LAB"]),
    ],
)
def test_wrong_calls_are_refused_in_one_line(capsys, arguments, lines):
    assert refused(capsys, *arguments) == lines


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(capsys, value):
    (line,) = refused(capsys, "run", "moe-eplb", "--set", f"hbm_budget_gb={value}")
    assert line.startswith("hbm_budget_gb: ")


def test_every_wrong_field_has_its_own_line(capsys):
    lines = refused(capsys, "run", "moe-eplb", "--set", "top_k=99", "--set", "num_gpus=3")
    assert sorted(line.split(":")[0] for line in lines) == ["num_gpus", "top_k"]


def test_cuda_is_refused_where_there_is_none(capsys, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert refused(capsys, "run", "moe-eplb", "--device", "cuda") == ["device: no CUDA device here"]


@pytest.mark.parametrize(
    ("state", "code", "told"),
    [
        ("broken", 1, "tokens_conserved: step 0\n"),
        ("broken_by_setting", 0, "tokens_conserved: broken by this setting: step 0\n"),
        ("held", 0, ""),
    ],
)
def test_a_broken_invariant_is_told_beside_the_report_and_exits_1_unless_a_setting_broke_it(
    capsys, monkeypatch, state, code, told
):
    report = Report(
        lab="moe-eplb",
        engine_version="0",
        seed=0,
        params={},
        metrics={},
        invariants={"tokens_conserved": Invariant(state=state, first_event="step 0")},
        provenance={},
    )
    monkeypatch.setattr("simworkers.moe.simulate.simulate", lambda *_, **__: report)
    assert main(["run", "moe-eplb"]) == code
    out, err = capsys.readouterr()
    assert json.loads(out)["invariants"]["tokens_conserved"]["state"] == state
    assert err == told


def test_balance_ignores_unknown_keys_and_needs_no_reference(tmp_path, capsys):
    file = write(tmp_path / "c.json", {"about": 1, "cases": [CASE | {"note": "x"}]})
    assert main(["balance", file]) == 0
    (case,) = json.loads(capsys.readouterr().out)
    assert case["name"] == "a"
    assert sorted(set(case["placement"][0])) == [0, 1, 2, 3]
    assert case["max_over_mean"] == [1.0]


def test_a_layer_without_load_counts_one(tmp_path, capsys):
    file = write(tmp_path / "c.json", {"cases": [CASE | {"load": [[0, 0, 0, 0], [0, 0, 5, 0]]}]})
    assert main(["balance", file]) == 0
    assert json.loads(capsys.readouterr().out)[0]["max_over_mean"] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"num_slots": 3}, "cases.0.num_slots: 3 slots do not fill 2 GPUs evenly"),
        ({"num_slots": 2}, "cases.0.load: 2 slots cannot hold 4 experts"),
        ({"num_nodes": 3}, "cases.0.num_nodes: 2 GPUs do not fill 3 nodes evenly"),
        ({"num_groups": 3}, "cases.0.load: 4 experts do not fill 3 groups evenly"),
        ({"load": [[1, 2], [1]]}, "cases.0.load: every layer needs the same number of experts, at least one"),
        ({"load": [[1, -2]]}, "cases.0.load.0.1: Input should be greater than or equal to 0"),
        ({"load": [["1", 2]]}, "cases.0.load.0.0: Input should be a valid number"),
        ({"load": []}, "cases.0.load: List should have at least 1 item after validation, not 0"),
        ({"num_gpus": True}, "cases.0.num_gpus: Input should be a valid integer"),
    ],
)
def test_wrong_cases_are_refused_at_their_field(tmp_path, capsys, changed, line):
    assert refused(capsys, "balance", write(tmp_path / "c.json", {"cases": [CASE | changed]})) == [line]


def test_a_file_without_cases_is_refused(tmp_path, capsys):
    assert refused(capsys, "balance", write(tmp_path / "c.json", {})) == ["cases: Field required"]
    assert refused(capsys, "balance", write(tmp_path / "c.json", [1]))[0].startswith("file: ")


def test_help_names_the_commands():
    done = shell("--help")
    assert done.returncode == 0
    assert all(command in done.stdout for command in ("list", "run", "balance"))


def test_names_in_any_script_reach_a_shell_that_speaks_ascii(tmp_path):
    file = write(tmp_path / "c.json", {"cases": [CASE | {"name": "größer"}]})
    done = shell("balance", str(file), PYTHONIOENCODING="ascii")
    assert (done.returncode, json.loads(done.stdout)[0]["name"]) == (0, "größer")


@pytest.mark.parametrize(
    ("value", "field"),
    [("top_k=true", "top_k"), ('top_k="2"', "top_k"), ("num_gpus=true", "num_gpus"), ("eplb=1", "eplb")],
)
def test_a_value_of_another_json_type_is_refused(capsys, value, field):
    (line,) = refused(capsys, "run", "moe-eplb", "--set", value)
    assert line.startswith(f"{field}: Input should be ")


@pytest.mark.parametrize("key", ["", "two\nlines"])
def test_a_key_that_is_no_name_stands_quoted_on_one_line(tmp_path, capsys, key):
    file = write(tmp_path / "p.json", {key: 1})
    (line,) = refused(capsys, "run", "moe-eplb", "--params", file)
    assert line == f"{key!r}: Extra inputs are not permitted"


def test_a_full_stdout_is_one_line_and_exit_1():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "simworkers", "list"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.stderr == "stdout: cannot be written: No space left on device\n"
    assert done.returncode == 1
