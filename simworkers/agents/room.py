"""What the weights leave of the GPUs' memory for KV."""

from simworkers.agents.serving.profiles import MODELS
from simworkers.hardware import GB, GPUS

HBM_PERCENT = 90  # for weights and KV; the rest is activations and runtime


def kv_room_bytes(model_name: str, gpu_name: str, tensor_parallel: int, pipeline_parallel: int) -> int:
    """KV bytes that one copy of the model keeps room for, each counted once however often it is held. ValueError where
    the GPUs do not hold its weights."""
    model, gpu, gpus = MODELS[model_name], GPUS[gpu_name], tensor_parallel * pipeline_parallel
    left = gpu.hbm_bytes * gpus * HBM_PERCENT // 100 - model.weights_bytes
    if left <= 0:
        needed = f"{model.name} needs {model.weights_bytes / GB:.0f} GB for its weights alone"
        raise ValueError(f"{gpus} × {gpu.name} do not hold the model: {needed}")
    return left // model.kv_copies(tensor_parallel)
