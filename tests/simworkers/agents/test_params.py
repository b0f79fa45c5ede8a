"""Bad parameters are refused at the field that is wrong."""

from itertools import groupby

import pytest
from pydantic import ValidationError

from simworkers.agents.params import AgentParams
from simworkers.agents.scene import build_scene, build_setup
from simworkers.agents.serving.policies import POLICIES
from simworkers.agents.work import MAX_WORK_S, RUNS_OF_A_REQUEST, expected_s, seconds_of
from simworkers.jobs import InvalidParameter


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("colour", {"colour": 1}),
        ("trace", {"trace": "yesterday's"}),
        ("trace", {"trace": "A" * 64}),
        ("sessions", {"sessions": 0}),
        ("sessions", {"sessions": True}),
        ("sessions", {"sessions": "16"}),
        ("sessions_at_once", {"sessions_at_once": 257}),
        ("policy", {"policy": "fastest"}),
        ("weight_cached", {"weight_cached": float("nan")}),
        ("host_gb_per_s", {"host_gb_per_s": 0}),
        ("host_usd_per_gb", {"host_usd_per_gb": 5e-324}),
        ("pool_usd_per_gb", {"pool_usd_per_gb": 0}),
        ("gpu_hour_usd", {"gpu_hour_usd": 0}),
        ("floor_tokens_per_s", {"floor_tokens_per_s": float("inf")}),
        ("tensor_parallel", {"tensor_parallel": 3}),
        ("balance_percent", {"balance_percent": 99}),
        ("watched_session", {"sessions": 4, "watched_session": 5}),
        ("pipeline_parallel", {"gpu_budget": 16}),
        ("pipeline_parallel", {"model": "deepseek-v3", "tensor_parallel": 1}),
        ("pool_gb", {"memory_offer_gb": 1000, "host_gb": 200, "pool_gb": 201}),
        ("compare_policies", {"sessions": 256, "turns_percent": 200}),
        (
            "compare_policies",
            {"sessions": 128, "turns_percent": 100, "search_load": True, "compare_policies": False},
        ),
        (
            "compare_policies",
            {"sessions": 256, "pipeline_parallel": 2, "token_budget": 64, "compare_policies": False},
        ),
    ],
)
def test_a_wrong_value_is_refused_at_its_field(field, changes):
    with pytest.raises(ValidationError) as caught:
        AgentParams.model_validate(changes)
    assert {error["loc"] for error in caught.value.errors()} == {(field,)}


def test_every_field_has_help_and_a_group_and_every_number_a_unit():
    for name, field in AgentParams.model_json_schema()["properties"].items():
        assert field["description"] and field["group"], name
        assert field.get("type") not in ("integer", "number") or "unit" in field, name


def test_a_form_has_each_group_once_and_the_sessions_first():
    groups = [field["group"] for field in AgentParams.model_json_schema()["properties"].values()]
    headings = [group for group, _ in groupby(groups)]
    assert headings[0] == "Sessions" and len(headings) == len(set(groups))


def test_every_policy_can_be_chosen_and_no_other():
    schema = AgentParams.model_json_schema()["properties"]["policy"]
    assert set(schema["enum"]) == set(POLICIES)


def test_a_model_that_its_gpus_do_not_hold_is_refused_with_what_it_needs():
    told = r"1 × .* do not hold the model: .* needs 671 GB"
    with pytest.raises(ValidationError, match=told):
        AgentParams(model="deepseek-v3", tensor_parallel=1)
    unchecked = AgentParams(compare_policies=False).model_copy(
        update={"model": "deepseek-v3", "tensor_parallel": 1}
    )
    with pytest.raises(InvalidParameter, match=rf"^pipeline_parallel: {told}"):
        build_scene(unchecked, 1)


def test_blocks_that_no_replica_has_room_for_are_the_traces_fault():
    with pytest.raises(InvalidParameter, match=r"^trace: .* no room for one block of 1048576 tokens"):
        build_setup(AgentParams(), 2**20, 1)


def test_zero_kv_blocks_are_what_hbm_has_left():
    setup = build_scene(AgentParams(sessions=1, turns_percent=1), 1).setup
    model, left_gb = setup.cost.model, 0.9 * 2 * 141
    room = (left_gb * 1e9 - model.weights_bytes) / (64 * model.kv_bytes_per_token)
    assert setup.kv_blocks == pytest.approx(room, rel=1e-3)
    told = AgentParams.model_json_schema()["properties"]["kv_blocks"]["description"]
    gb = setup.kv_blocks * 64 * model.kv_bytes_per_token / 1e9
    assert f"{setup.kv_blocks:,} blocks of 64 tokens or {gb:.0f} GB" in told


def test_a_latent_lies_on_every_gpu_of_a_replica_and_leaves_room_for_an_eighth():
    setup = build_setup(AgentParams(model="deepseek-v3", gpu="b200", tensor_parallel=8), 64, 1)
    model = setup.cost.model
    room = (0.9 * 180e9 * 8 - model.weights_bytes) / 8 / (64 * model.kv_bytes_per_token)
    assert setup.kv_blocks == pytest.approx(room, rel=1e-3)
    assert setup.tiers.host_bytes_per_s == 50e9  # each GPU has to load all of it


def test_a_link_over_the_network_costs_more_time_than_nvlink():
    nvlink, network = (
        build_scene(AgentParams(sessions=1, turns_percent=1, link=link), 1).setup.cost._link_token_fs
        for link in ("nvlink", "network")
    )
    assert network > 5 * nvlink


@pytest.mark.parametrize(
    ("for_s", "expected"),
    [(30, [(10, "fail"), (40, "return")]), (0, [(10, "fail")])],
)
def test_an_incident_ends_unless_it_lasts_to_the_end(for_s, expected):
    params = AgentParams(sessions=1, turns_percent=1, incident="fail", incident_at_s=10, incident_for_s=for_s)
    incidents = build_scene(params, 1).setup.incidents
    assert [(one.at_us // 10**6, one.what) for one in incidents] == expected
    assert {one.replica for one in incidents} == {0}


# What a run takes ------------------------------------------------------------------------------


def expected(**changes):
    return AgentParams.model_validate({"compare_policies": False} | changes).expected_seconds()


def test_a_run_takes_longer_with_more_to_do():
    one = expected()
    for more in (
        {"sessions": 32},
        {"turns_percent": 100},
        {"replicas": 8},
        {"compare_policies": True},
        {"search_load": True},
        {"compare_caps": True},
        {"pipeline_parallel": 2, "token_budget": 256},
    ):
        assert expected(**more) > one, more


def test_steps_of_a_pipeline_cost_only_where_there_is_one():
    assert expected(token_budget=64) == expected(token_budget=8192)
    assert expected(pipeline_parallel=2, token_budget=64) > 3 * expected(pipeline_parallel=2)


def test_a_run_on_a_recorded_trace_may_take_as_long_as_any():
    assert expected(trace="0" * 64) == expected(trace="default", sessions=1) == MAX_WORK_S


def test_runs_of_blocks_and_tiers_cost_time_of_their_own():
    plain = AgentParams(compare_policies=False).model_dump()
    tiers = plain | {"host_gb": 1}
    drawn = RUNS_OF_A_REQUEST * 1000

    def seconds(values, runs):
        return seconds_of(1000, 0, 0, values, runs)

    assert seconds(plain, drawn) == seconds(plain, None) == seconds(plain, 1)
    assert seconds(plain, 4 * drawn) > seconds(plain, drawn) < seconds(tiers, drawn)
    assert seconds(tiers, 4 * drawn) > seconds(tiers, drawn) + seconds(plain, 4 * drawn) - seconds(
        plain, drawn
    )


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"turns_percent": 200}, "use fewer sessions or turns, or no comparison"),
        (
            {"pipeline_parallel": 2, "token_budget": 64, "compare_policies": False},
            "use fewer sessions or turns, a larger token budget, or fewer pipeline stages",
        ),
        (
            {"search_load": True, "pool_gb": 1, "compare_policies": False},
            "use fewer sessions or turns, no memory tiers, or no load search",
        ),
        (
            {"turns_percent": 200, "scored_as": "throughput", "compare_policies": False},
            "fewer sessions or turns",
        ),
    ],
)
def test_what_takes_too_long_is_told_what_of_it_can_be_less(changes, advice):
    with pytest.raises(ValidationError) as caught:
        AgentParams.model_validate({"sessions": 256} | changes)
    assert caught.value.errors()[0]["msg"].endswith(advice)


def test_a_recorded_trace_is_not_refused_before_anybody_knows_how_many_sessions_it_has():
    assert AgentParams(trace="0" * 64, sessions=256, search_load=True)


def test_the_expectation_is_that_of_the_mean_trace():
    values = AgentParams(compare_policies=False, sessions=10, turns_percent=100).model_dump()
    assert expected_s(values) == seconds_of(760, 760 * 142_000, 760 * 450, values)
