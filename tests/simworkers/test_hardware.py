import pytest

from simworkers.hardware import GPUS, MODELS, Roofline

V3_ON_H100 = Roofline.of(GPUS["h100"], MODELS["deepseek-v3"], "bf16")


def test_a_v3_expert_has_44_megabytes_in_fp8():
    assert MODELS["deepseek-v3"].expert_bytes("fp8") == 3 * 7168 * 2048 == 44_040_192


def test_one_more_slot_per_gpu_costs_2_55_gb_over_58_layers():
    model = MODELS["deepseek-v3"]
    assert model.expert_bytes("fp8") * model.moe_layers / 1e9 == pytest.approx(2.55, abs=0.005)


def test_v3_keeps_70_kb_of_kv_a_token():
    assert MODELS["deepseek-v3"].kv_bytes_per_token == 70_272


@pytest.mark.parametrize(("slots", "published_us"), [(2, 52.6), (3, 78.9)])
def test_a_decode_step_reads_every_active_slot_whatever_the_skew(slots, published_us):
    """256 tokens, top-2 of 8 experts on 4 GPUs: even one GPU with half of all copies only reads weights."""
    tokens_per_slot = 256 * 2 // 4 // slots
    assert slots * V3_ON_H100.expert_s(tokens_per_slot) * 1e6 == pytest.approx(published_us, abs=0.1)


def test_an_expert_without_tokens_takes_no_time():
    assert V3_ON_H100.expert_s(0) == 0.0


def test_beyond_the_ridge_tokens_are_the_bill():
    ridge = V3_ON_H100.read_s / V3_ON_H100.token_s
    assert V3_ON_H100.expert_s(int(ridge * 4)) == pytest.approx(4 * V3_ON_H100.read_s, rel=0.01)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_all_weights_of_a_profile_add_up_to_its_published_size(name):
    published = {"deepseek-v3": (256, 671e9), "mixtral-8x7b": (8, 46.7e9), "qwen3-30b-a3b": (128, 30.5e9)}
    experts, total = published[name]
    model = MODELS[name]
    assert model.expert_weights * experts * model.moe_layers + model.other_weights == pytest.approx(
        total, rel=0.002
    )
