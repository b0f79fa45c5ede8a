import json

import pytest

from simworkers.catalog import get_job
from simworkers.moe.figures import draw
from simworkers.moe.params import MoeParams
from simworkers.moe.simulate import simulate
from tests.simworkers.figures import check_dark_ink, check_pictures, check_spec, check_text

SMALL = {"tokens_per_step": 512, "chunk_tokens": 32, "num_layers": 3, "warmup_steps": 1, "num_steps": 3}
NAMES = [figure.name for figure in get_job("moe-eplb").figures]
LARGE = {"num_experts": 256, "top_k": 8, "num_gpus": 64, "num_nodes": 8, "num_groups": 8, "num_layers": 61}
BALANCED = {"eplb": True, "redundant_slots_per_gpu": 1}


def figures_of(**values):
    return draw(simulate(MoeParams.model_validate(SMALL | BALANCED | values), 0, lambda done, total: None))


@pytest.fixture(scope="module")
def figures():
    return figures_of()


def test_every_figure_of_the_catalogue_is_drawn_in_order(figures):
    assert list(figures) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_specs_keep_the_vega_lite_schema(figures, name):
    check_spec(figures[name])


@pytest.mark.parametrize("name", NAMES)
def test_svgs_have_no_background_and_pngs_are_pngs(figures, name):
    check_pictures(figures[name])


@pytest.mark.parametrize("name", NAMES)
def test_dark_pictures_differ_in_ink_alone(figures, name):
    check_dark_ink(figures[name])


@pytest.mark.parametrize("name", NAMES)
def test_text_can_be_read_on_its_ground(figures, name):
    check_text(figures[name])


def test_the_slider_walks_all_layers_over_an_axis_that_stays(figures):
    spec = figures["gpu-tokens"].spec
    assert spec["params"][0]["bind"]["max"] == 2
    assert spec["layer"][0]["encoding"]["y"]["scale"]["nice"] is False
    top = max(max(row["contiguous"], row["chosen setting"]) for row in figures["gpu-tokens"].table)
    assert spec["layer"][0]["encoding"]["y"]["scale"]["domain"][1] >= top


def test_tables_hold_what_the_figure_shows(figures):
    assert len(figures["gpu-tokens"].table) == 3 * 4
    shares = [row["share"] for row in figures["what-binds"].table if row["placement"] == "contiguous"]
    assert sum(shares) == pytest.approx(1, abs=1e-3)


@pytest.mark.slow
def test_the_largest_figures_stay_small():
    for name, figure in figures_of(**LARGE, num_steps=1, tokens_per_step=256).items():
        assert len(json.dumps(figure.spec)) + len(figure.svg_light) <= 150_000, name


def test_a_run_of_one_layer_one_gpu_and_one_step_can_be_drawn():
    figures = figures_of(num_layers=1, num_gpus=1, num_steps=1, eplb=False)
    assert "bind" not in figures["gpu-tokens"].spec["params"][0]
