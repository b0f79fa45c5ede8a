"""The task `pipeline-or-tensor`: one configuration in which a pipeline wins, one in which it loses, on the same GPUs.

Model, GPUs and a rule are drawn: the two configurations may differ in one field alone, and another field is given. So
nobody can hand in a well-known pair, and who finds one has found what turns the result round on this machine.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, Literal, get_args

from simworkers.agents.params import AgentParams
from simworkers.agents.probe_params import PipelineProbe, ProbeRule
from simworkers.agents.serving.profiles import MODELS
from simworkers.agents.tasks.choices import one_of
from simworkers.agents.tasks.pipeline_probe import SESSIONS, TURNS_PERCENT, play_probe
from simworkers.hardware import GB, GPUS
from simworkers.instances import SEEDS, draw_until_it_serves
from simworkers.jobs import PreparedInstance, Progress, Submission
from simworkers.rng import Stream

Pair = tuple[PipelineProbe, PipelineProbe]  # in which the pipeline wins, and in which it loses
Differ = Literal["link", "prompts", "output_percent", "sessions_at_once"]
CLUSTERS = (
    ("qwen3-32b", "h100", 2),
    ("qwen3-32b", "h200", 4),
    ("qwen3-30b-a3b", "h200", 4),
    ("llama-3.1-70b", "h200", 4),
    ("llama-3.1-70b", "h200", 2),
    ("llama-3.1-70b", "b200", 2),
    ("qwen3-235b-a22b", "b200", 4),
    ("deepseek-v3", "b200", 8),
)
# Where the load, or the answers' length, turns the result round at all; elsewhere most draws are in vain.
LIKELY = {
    "sessions_at_once": (CLUSTERS[1], CLUSTERS[3], CLUSTERS[-1]),
    "output_percent": (*CLUSTERS[:2], *CLUSTERS[3:6], CLUSTERS[-1]),
}
# What the expert tries.
TRIED: dict[str, tuple[Any, ...]] = {
    "link": ("nvlink", "network"),
    "prompts": ("warm", "fresh"),
    "context_percent": (10,),
    "output_percent": (5, 20, 100),
    "sessions_at_once": (1, 4, 16, 64),
    "token_budget": (1024,),
}
PRACTICE_SEED = 1
DRAWS = 200
MARGIN = 1.15  # by which a win or a loss is one
PRACTICE_MARGIN = 1.2
SHOWN = ("model", "gpu", "collective_us", "step_overhead_us")
# The run itself is as small as it can be: nothing of it is judged.
RUN: dict[str, Any] = {
    "sessions": 1,
    "turns_percent": 1,
    "context_percent": 10,
    "replicas": 1,
    "compare_policies": False,
}


def prepare(seed: int, progress: Progress) -> PreparedInstance:
    """Draw instances until one serves. What may differ is drawn first, so that each field is as likely."""
    differ = one_of(Stream(seed, "pipeline-or-tensor"), get_args(Differ))
    return draw_until_it_serves(
        seed, "pipeline-or-tensor", lambda stream: _draw(stream, differ, progress), DRAWS
    )


def _draw(stream: Stream, differ: Differ, progress: Progress) -> PreparedInstance | None:
    """An instance serves if the expert finds a pair in practice that holds in the graded run, and the usual belief
    does not."""
    progress(0, 1)
    params, seed = _draw_params(stream, differ), stream.integer(SEEDS)
    found = best_pair(params)
    if found is None or margin(params, found, seed) < MARGIN:
        return None
    if margin(params, as_usually_believed(params), seed) >= 1:
        return None
    return PreparedInstance(params=params.model_dump(), visible=_describe(params), seed=seed)


def _draw_params(stream: Stream, differ: Differ) -> AgentParams:
    model, gpu, gpus = one_of(stream, LIKELY.get(differ, CLUSTERS))
    rule = ProbeRule(differ=differ, output_percent=one_of(stream, (5, 10, 15, 20, 30, 40, 60)))
    if differ == "output_percent":
        rule = ProbeRule(differ=differ, sessions_at_once=one_of(stream, (4, 8, 12, 16, 24, 32)))
    values = RUN | {"model": model, "gpu": gpu, "tensor_parallel": gpus, "probes_rule": rule}
    return AgentParams.model_validate(values)


def margin(params: AgentParams, pair: Pair, seed: int) -> float:
    """The smaller of how far the pipeline wins in the first probe and loses in the second; 0 where requests fail."""
    wins, loses = (play_probe(params, probe, seed) for probe in pair)
    if min(wins.completed_share, loses.completed_share) < 0.99:
        return 0.0
    return min(wins.ratio, 1 / loses.ratio)


def best_pair(params: AgentParams) -> Pair | None:
    """The pair with the largest margin among those tried, with another seed; None where it is too small."""
    assert params.probes_rule is not None
    best: tuple[float, Pair | None] = (PRACTICE_MARGIN, None)
    for group in _groups(params.probes_rule):
        played = [(play_probe(params, probe, PRACTICE_SEED), probe) for probe in group]
        served = [(found.ratio, probe) for found, probe in played if found.completed_share >= 0.99]
        if len(served) < 2:
            continue
        high, low = max(served, key=lambda one: one[0]), min(served, key=lambda one: one[0])
        if min(high[0], 1 / low[0]) > best[0]:
            best = min(high[0], 1 / low[0]), (high[1], low[1])
    return best[1]


def _groups(rule: ProbeRule) -> Iterator[list[PipelineProbe]]:
    """Probes that differ in the one field alone, group by group."""
    tried = {name: _given(rule, name) or values for name, values in TRIED.items()}
    differing = tried.pop(rule.differ)
    for values in product(*tried.values()):
        same = dict(zip(tried, values, strict=True))
        yield [PipelineProbe(**same, **{rule.differ: value}) for value in differing]


def _given(rule: ProbeRule, name: str) -> tuple[Any, ...] | None:
    value = getattr(rule, name, None)
    return None if value is None else (value,)


def as_usually_believed(params: AgentParams) -> Pair:
    """Many sessions that decode fill a pipeline; a fresh prompt blocks it, and few sessions leave it idle."""
    rule = params.probes_rule
    assert rule is not None
    values: dict[str, Any] = {
        "link": "network",
        "prompts": "warm",
        "context_percent": 100,
        "output_percent": rule.output_percent or 100,
        "sessions_at_once": rule.sessions_at_once or 64,
        "token_budget": 8192,
    }
    other = {"link": "nvlink", "prompts": "fresh", "output_percent": 5, "sessions_at_once": 1}[rule.differ]
    return PipelineProbe(**values), PipelineProbe(**values | {rule.differ: other})


def _describe(params: AgentParams) -> dict[str, Any]:
    """The machine, the model, and the rule."""
    model, gpu, rule = MODELS[params.model], GPUS[params.gpu], params.probes_rule
    assert rule is not None
    return params.model_dump(include=set(SHOWN)) | {
        "gpus": params.tensor_parallel,
        "may_differ": rule.differ,
        "given": rule.model_dump(exclude={"differ"}, exclude_none=True),
        "margin": MARGIN,
        "sessions_of_a_probe": SESSIONS,
        "turns_percent_of_a_probe": TURNS_PERCENT,
        "weights_gb": round(model.weights_bytes / GB, 1),
        "active_weights_billions": round(model.active_weights / 1e9, 1),
        "layers": model.layers,
        "hidden": model.hidden,
        "kv_bytes_per_token": model.kv_bytes_per_token,
        "hbm_gb_per_s": round(gpu.hbm_bytes_per_s / GB),
        "tflops": round(gpu.flops_per_s[model.precision] / 1e12),
        "nvlink_gb_per_s": round(gpu.nvlink_bytes_per_s / GB),
        "network_gb_per_s": round(gpu.network_bytes_per_s / GB),
    }


def scene_of(visible: Mapping[str, Any]) -> AgentParams:
    rule = ProbeRule(differ=visible["may_differ"], **visible["given"])
    values = {name: visible[name] for name in SHOWN}
    return AgentParams.model_validate(
        RUN | values | {"tensor_parallel": visible["gpus"], "probes_rule": rule}
    )


def references(prepared: PreparedInstance) -> dict[str, Submission]:
    """What kinds of learner hand in, each from the visible part alone.

    naive: one and the same probe twice, as the lab's defaults have it. misconception: has heard that many decoding
    sessions fill a pipeline. expert: plays probes that differ in the one field with another seed, and takes the pair
    that differs most.
    """
    params = scene_of(prepared.visible)
    rule, found = params.probes_rule, best_pair(params)
    assert rule is not None and found is not None, "the instance was drawn so that there is one"
    plain = PipelineProbe(
        link="nvlink",
        prompts="warm",
        context_percent=100,
        output_percent=rule.output_percent or 100,
        sessions_at_once=rule.sessions_at_once or 16,
        token_budget=8192,
    )
    pairs = {"naive": (plain, plain), "misconception": as_usually_believed(params), "expert": found}
    return {who: _handed_in(params, pair) for who, pair in pairs.items()}


def _handed_in(params: AgentParams, pair: Pair) -> Submission:
    ratios = [round(play_probe(params, probe, PRACTICE_SEED).ratio, 3) for probe in pair]
    return Submission(
        params={},
        prediction={"wins_ratio": ratios[0], "loses_ratio": ratios[1]},
        artefact={
            name: probe.model_dump() for name, probe in zip(("pp_wins", "pp_loses"), pair, strict=True)
        },
    )
