import json
import re

import pytest

from simworkers.drawing import GREEN, GREY, ORANGE, SKY, finish
from simworkers.multimodal.curve_figures import draw_encoder_workers, draw_image_tokens
from simworkers.multimodal.figures import draw
from simworkers.multimodal.job import MULTIMODAL_CACHE
from simworkers.multimodal.params import MultimodalParams
from simworkers.multimodal.simulate import simulate
from simworkers.multimodal.time_figures import draw_cache_occupancy
from simworkers.multimodal.way_figure import draw_image_way
from tests.simworkers.figures import check_dark_ink, check_pictures, check_spec, check_text, contrast, words

# 64 tokens a picture: a quick engine that still has several blocks of each picture.
SMALL = {"users": 2, "turns": 3, "max_image_tokens": 64, "image_width_px": 320, "image_height_px": 200}
NAMES = [figure.name for figure in MULTIMODAL_CACHE.figures]
STAGES_USERS_WAIT_FOR = ("upload_us", "preprocess_us", "queue_us", "encode_us", "prefill_us")


def report_of(**values):
    return simulate(MultimodalParams.model_validate(SMALL | values), 1, lambda done, total: None)


@pytest.fixture(scope="module")
def report():
    return report_of()


@pytest.fixture(scope="module")
def figures(report):
    return draw(report)


@pytest.fixture(scope="module")
def jpeg_report():
    return report_of(client="jpeg", second_picture_turn=2)


@pytest.fixture(scope="module")
def jpeg_way(jpeg_report):
    return finish(MULTIMODAL_CACHE.figures[0], *draw_image_way(jpeg_report.metrics, jpeg_report.params))


def with_metrics(report, **changes):
    """The report with some metrics exchanged, for scenes that few runs reach."""
    return report.model_copy(update={"metrics": report.metrics | changes})


def fills(svg, colour):
    """How many boxes of a colour the picture has, its legend's symbol among them."""
    return len(re.findall(rf'<path[^>]*fill="{colour}"', svg))


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


@pytest.mark.parametrize("colour", [GREEN, SKY, GREY, ORANGE])
def test_black_words_can_be_read_on_every_colour_of_a_cell(colour):
    red, green, blue = bytes.fromhex(colour[1:])
    assert contrast(f"{red:02x}{green:02x}{blue:02x}", 0) >= 4.5


def test_the_same_report_is_drawn_the_same_twice(report, figures):
    assert draw(report) == figures


# The way ---------------------------------------------------------------------------------------


def test_the_way_has_a_row_for_every_picture_of_every_turn(jpeg_report, jpeg_way):
    table = jpeg_way.table
    assert len(table) == sum(len(turn["pictures"]) for turn in jpeg_report.metrics["turns"])
    assert len({(row["turn"], row["user"], row["picture"]) for row in table}) == len(table)


def test_the_slider_walks_all_turns_and_starts_at_the_second(figures):
    (slider,) = figures["image-way"].spec["params"]
    assert slider["value"] == 2
    assert (slider["bind"]["min"], slider["bind"]["max"], slider["bind"]["step"]) == (1, 3, 1)


def test_the_axes_of_the_way_stay_while_the_slider_moves(jpeg_way):
    encoding = jpeg_way.spec["encoding"]
    assert encoding["x"]["scale"]["domain"] == [0, 5]
    assert encoding["y"]["scale"]["domain"] == [0, 4]  # two users, two pictures each, from turn 1 on


def test_cells_are_lit_where_the_table_says_hit(figures):
    """Turn 2 is shown: found pictures, needless encodings, and the found part of each prompt's KV."""
    shown = [row for row in figures["image-way"].table if row["turn"] == 2]
    svg = figures["image-way"].svg_light
    hits = sum(row[stage] == "hit" for row in shown for stage in ("preprocess", "encode"))
    found = sum(row["kv_found_tokens"] > 0 for row in shown)
    needless = sum(row["encode"] == "not_needed" for row in shown)
    assert hits and found and needless
    assert fills(svg, GREEN) == hits + found + 1
    assert fills(svg, SKY) == needless + 1
    assert fills(svg, ORANGE) == 1  # only the legend


def test_what_is_computed_again_names_its_reason(jpeg_way):
    figure = jpeg_way
    again = [row for row in figure.table if row["turn"] == 2 and row["encode"] == "pixels_changed"]
    assert again
    # Preprocessing, encoding and KV of each, and the legend.
    assert fills(figure.svg_light, ORANGE) == 3 * len(again) + 1
    assert words(figure.svg_light).count("pixels") == 3 * len(again)


def test_a_picture_that_comes_later_is_said_not_to_be_sent_yet(jpeg_way):
    cells = jpeg_way.spec["layer"][0]["data"]["values"]
    waiting = {(cell["turn"], cell["row"]) for cell in cells if cell["what"] == "not yet\nsent"}
    assert waiting == {(1, 1), (1, 3)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "same file"),
        ({"file": "0"}, "same pixels"),
        ({"file": "0", "pixels": "0", "changed_share": None}, "other size"),
        ({"file": "0", "pixels": "0", "changed_share": 0.61}, "61% differs"),
        ({"file": "0", "pixels": "0", "changed_share": 0.0534}, "5.3% differs"),
        ({"file": "0", "pixels": "0", "changed_share": 1e-6}, "<0.1% differs"),
    ],
)
def test_the_upload_is_compared_with_the_turn_before(report, change, said):
    first, second, _ = [turn for turn in report.metrics["turns"] if turn["user"] == 0]
    second = second | {"pictures": [second["pictures"][0] | change]}
    _, table = draw_image_way({"turns": [first, second]}, report.params)
    assert [row["sent"] for row in table] == ["new file", said]


def test_found_lost_and_new_kv_add_up_to_the_prompt(jpeg_report, jpeg_way):
    prompts = jpeg_way.spec["layer"][1]["data"]["values"]
    lengths = {(turn["turn"], turn["user"]): turn["prompt_tokens"] for turn in jpeg_report.metrics["turns"]}
    assert len(prompts) == len(lengths)
    for bar in prompts:
        parts = bar["found in a cache"], bar["computed again"], bar["computed: new"]
        assert min(parts) >= 0
        assert sum(parts) == lengths[bar["turn"], bar["user"]]


def test_the_headline_counts_the_pictures_that_were_encoded(figures):
    assert figures["image-way"].svg_light.count("Turn 2 of 3: 0 of 2 pictures encoded") > 0


def test_a_run_of_one_user_and_one_turn_has_no_slider(report):
    turns = [turn for turn in report.metrics["turns"] if (turn["user"], turn["turn"]) == (0, 1)]
    figures = draw(with_metrics(report, turns=turns))
    assert "bind" not in figures["image-way"].spec["params"][0]
    assert list(figures) == NAMES


# Times and memory ------------------------------------------------------------------------------


def test_the_stages_of_a_turn_add_up_to_its_mean_ttft(report, figures):
    for number in (1, 2, 3):
        drawn = sum(row["ms"] for row in figures["ttft-by-turn"].table if row["turn"] == number)
        turns = [turn for turn in report.metrics["turns"] if turn["turn"] == number]
        assert drawn == pytest.approx(sum(turn["ttft_us"] for turn in turns) / len(turns) / 1000, abs=0.01)
        assert all(turn["ttft_us"] == sum(turn[name] for name in STAGES_USERS_WAIT_FOR) for turn in turns)


def test_the_ttft_headline_names_both_turns(figures):
    text = figures["ttft-by-turn"].spec["title"]["text"]
    assert text.startswith("Turn 2 takes ") and "turn 1 took " in text


def test_occupancy_has_a_row_a_moment_in_megabytes(report, figures):
    table = figures["cache-occupancy"].table
    assert len(table) == len(report.metrics["occupancy"])
    assert max(row["kv_held_mb"] for row in table) * 1e6 <= report.metrics["kv_bytes"]


def dashed_lines(spec):
    return [layer for layer in spec["layer"] if layer["mark"].get("strokeDash")]


def test_a_cache_that_fills_has_its_capacity_as_a_dashed_line(report):
    held = max(row["kv_held_bytes"] + row["kv_cached_bytes"] for row in report.metrics["occupancy"])
    stored = max(row["encoder_bytes"] for row in report.metrics["occupancy"])
    metrics = report.metrics | {"kv_bytes": 2 * held, "encoder_cache_bytes": stored}
    spec, _ = draw_cache_occupancy(metrics, report.params)
    assert len(dashed_lines(spec)) == 2
    assert all(line["mark"]["aria"] is False for line in dashed_lines(spec))  # its words beside it say it
    assert spec["title"]["text"] == "KV fills 50% of its memory, embeddings 100% of theirs"


def test_a_cache_that_hardly_fills_is_drawn_larger_and_says_so(report):
    metrics = report.metrics | {"kv_bytes": 10**12, "encoder_cache_bytes": 10**12}
    spec, _ = draw_cache_occupancy(metrics, report.params)
    assert not dashed_lines(spec)
    assert json.dumps(spec).count("1,000,000 MB, far above this") == 2


# Curves ----------------------------------------------------------------------------------------


def test_both_schemes_are_drawn_for_every_width(report, figures):
    table = figures["image-tokens"].table
    assert len(table) == 2 * len(report.metrics["resolutions"])
    assert {row["scheme"] for row in table} == {"native resolution", "tiles and a thumbnail"}


def test_the_runs_own_picture_is_marked_at_its_width(report, figures):
    mark = figures["image-tokens"].spec["layer"][1]
    assert mark["data"]["values"] == [{"width_px": 320, "tokens": report.metrics["image_tokens"]}]
    assert "320 × 200 px" in figures["image-tokens"].spec["title"]["subtitle"]


@pytest.mark.parametrize("change", [{"picture": "own"}, {"client": "normalised"}])
def test_a_picture_of_unknown_width_is_a_line_across(report, change):
    spec, _ = draw_image_tokens(report.metrics, report.params | change)
    mark = spec["layer"][1]
    assert mark["mark"]["type"] == "rule" and "x" not in mark["encoding"]


def test_the_headline_of_sizes_names_the_scheme_of_the_run(report):
    for scheme, field in (("native", "native_tokens"), ("tiles", "tiled_tokens")):
        spec, _ = draw_image_tokens(report.metrics, report.params | {"scheme": scheme})
        most = max(row[field] for row in report.metrics["resolutions"])
        assert spec["title"]["text"].startswith(f"A picture costs at most {most} tokens")


def test_above_one_encoder_workers_are_better_in_both_measures(report):
    row = {
        "image_percent": 50,
        "colocated_tokens_per_gpu_s": 100.0,
        "split_tokens_per_gpu_s": 120.0,
        "colocated_ttft_us": 3000.0,
        "split_ttft_us": 1000.0,
    }
    _, table = draw_encoder_workers({"cluster": [row]}, report.params)
    assert [line["ratio"] for line in table] == [1.2, 3.0]


def test_the_even_line_lies_inside_the_axis_and_has_a_tick(figures):
    spec = figures["encoder-workers"].spec
    height = spec["layer"][0]["encoding"]["y"]
    low, high = height["scale"]["domain"]
    ratios = [row["ratio"] for row in figures["encoder-workers"].table]
    assert low < 1 < high
    assert low <= min(ratios) <= max(ratios) <= high
    assert 1 in height["axis"]["values"]


def test_without_encoder_workers_the_headline_says_that_both_are_the_same(report):
    spec, _ = draw_encoder_workers(report.metrics, report.params | {"cluster_encoder_workers": 0})
    assert spec["title"]["text"] == "No GPU only encodes, so both clusters are the same"


# Size ------------------------------------------------------------------------------------------


def test_the_largest_chat_stays_small(jpeg_report):
    """Eight users with two pictures over eight turns, and as many moments as a report has at most."""
    turn, moment = jpeg_report.metrics["turns"][-1], jpeg_report.metrics["occupancy"][-1]
    turns = [turn | {"user": user, "turn": number} for number in range(1, 9) for user in range(8)]
    moments = [moment | {"time_us": n * 1001, "kv_held_bytes": n * 10**6} for n in range(240)]
    figures = draw(with_metrics(jpeg_report, turns=turns, occupancy=moments))
    assert len(figures["image-way"].table) == 8 * 8 * 2
    for name, figure in figures.items():
        assert len(json.dumps(figure.spec)) + len(figure.svg_light) <= 150_000, name
