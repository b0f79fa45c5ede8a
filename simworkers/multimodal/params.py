"""The knobs of the multimodal lab. Pydantic alone, so that a web process can read schemas without torch."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from simworkers.fields import StrictParams, form
from simworkers.multimodal.own_image import MAX_OWN_IMAGE_BYTES, refuse_what_is_no_image
from simworkers.multimodal.work import MAX_WORK_US, WORK_FIELDS, expected_us, longest_chat

BLOCK_SIZE = 16  # tokens of a KV block
TOKEN_PX = 28  # side of the square that becomes one token: 2 × 2 patches of 14 pixels


class MultimodalParams(StrictParams):
    """One frozen object; unknown keys, NaN and infinities are refused.

    Checks across fields stand on the later of the fields that they compare, so that an error points at one.
    """

    picture: Literal["dashboard", "terminal", "photo", "own"] = Field(
        "terminal",
        description="What the user sends: a dashboard, a terminal with a failing pod, a photograph, all drawn here; "
        "or a file of your own.",
        json_schema_extra=form("Chat", ""),
    )
    own_image: str = Field(
        "",
        max_length=MAX_OWN_IMAGE_BYTES * 4 // 3 + 4,
        description="Your picture, base64: PNG, JPEG, WebP or GIF of one frame, at most 512 KiB.",
        json_schema_extra=form("Chat", "")
        | {"format": "image", "contentEncoding": "base64", "maxBytes": MAX_OWN_IMAGE_BYTES},
    )
    image_width_px: int = Field(
        1280, ge=64, le=4096, description="Width of a drawn picture.", json_schema_extra=form("Chat", "px")
    )
    image_height_px: int = Field(
        800, ge=64, le=4096, description="Height of a drawn picture.", json_schema_extra=form("Chat", "px")
    )
    users: int = Field(
        4,
        ge=1,
        le=8,
        description="People who chat at the same time, each about a picture of their own.",
        json_schema_extra=form("Chat", "users"),
    )
    same_picture: bool = Field(
        False, description="Everyone sends the same picture.", json_schema_extra=form("Chat", "")
    )
    turns: int = Field(
        4,
        ge=1,
        le=8,
        description="Questions of each user. Every turn sends the whole chat again, pictures included.",
        json_schema_extra=form("Chat", "turns"),
    )
    second_picture_turn: int = Field(
        0,
        ge=0,
        le=8,
        description="The turn in which each user adds a second picture of the same size; 0: never.",
        json_schema_extra=form("Chat", "turn", zero="never"),
    )
    system_tokens: int = Field(
        64,
        ge=0,
        le=512,
        description="Text before the first picture, the same for all users.",
        json_schema_extra=form("Chat", "tokens"),
    )
    question_tokens: int = Field(
        40, ge=1, le=512, description="Text of every question.", json_schema_extra=form("Chat", "tokens")
    )
    answer_tokens: int = Field(
        24, ge=2, le=128, description="Output of every turn.", json_schema_extra=form("Chat", "tokens")
    )
    think_s: float = Field(
        5.0,
        ge=0,
        le=600,
        description="From an answer to the same user's next question.",
        json_schema_extra=form("Chat", "s"),
    )
    changing_text: bool = Field(
        False,
        description="The text before the picture holds a time of day, which is another one in every turn.",
        json_schema_extra=form("Chat", ""),
    )
    client: Literal["same_bytes", "lossless_resave", "jpeg", "png_then_jpeg", "resize", "normalised"] = Field(
        "same_bytes",
        description="What the client does with a picture at every send: the same bytes; a lossless re-save (pixels "
        "equal); JPEG, decoded and encoded again each time; PNG first and JPEG later; scaled to 90%; or normalised "
        "once before the first send and then always the same file.",
        json_schema_extra=form("Client", ""),
    )
    jpeg_quality: int = Field(
        85, ge=1, le=100, description="Of the client's JPEG files.", json_schema_extra=form("Client", "")
    )
    onset_turn: int = Field(
        0,
        ge=0,
        le=8,
        description="From this turn on the client, a salt per turn and the changing text act as set; before it file "
        "and text stay as they are, and no turn is set apart. 0: from the start.",
        json_schema_extra=form("Client", "turn", zero="from the start"),
    )
    client_mbytes_per_s: float = Field(
        2.5,
        ge=0.01,
        le=10_000,
        description="Upload link of a client.",
        json_schema_extra=form("Client", "MB/s", "Client bandwidth"),
    )
    identity: Literal["bytes", "pixels", "client_id"] = Field(
        "bytes",
        description="What makes two images the same to the caches: the hash of the file, the hash of the decoded "
        "pixels with their shape, or an id that the client gives.",
        json_schema_extra=form("Identity", ""),
    )
    client_id_per: Literal["picture", "chat"] = Field(
        "picture",
        description="Whether a client gives every picture an id of its own, or uses one id for the whole chat.",
        json_schema_extra=form("Identity", ""),
    )
    salt: Literal["none", "user", "turn"] = Field(
        "none",
        description="What separates prefix caches: nothing, the user, or (a new connection each time) the turn.",
        json_schema_extra=form("Identity", ""),
    )
    scheme: Literal["native", "tiles"] = Field(
        "native",
        description="Native resolution with a token budget, or square tiles with a thumbnail.",
        json_schema_extra=form("Processor", ""),
    )
    max_image_tokens: int = Field(
        320,
        ge=16,
        le=640,
        description="Most tokens of one picture; a larger picture is shrunk (native) or gets fewer tiles.",
        json_schema_extra=form("Processor", "tokens"),
    )
    tile_px: Literal[224, 336, 448] = Field(
        224, description="Side of a tile.", json_schema_extra=form("Processor", "px")
    )
    processor_change_turn: int = Field(
        0,
        ge=0,
        le=8,
        description="From this turn on the server's processor takes a quarter fewer tokens; 0: never.",
        json_schema_extra=form("Processor", "turn", zero="never"),
    )
    prefix_caching: bool = Field(
        True,
        description="Whether KV of finished prompts can be found again.",
        json_schema_extra=form("Caches", ""),
    )
    kv_blocks: int = Field(
        512,
        ge=8,
        le=8192,
        description="KV blocks of 16 tokens.",
        json_schema_extra=form("Caches", "blocks"),
    )
    encoder_cache_embeddings: int = Field(
        2048,
        ge=0,
        le=65_536,
        description="Embeddings that the encoder cache holds; room for the largest image at least.",
        json_schema_extra=form("Caches", "embeddings"),
    )
    encoder_caching: bool = Field(
        True,
        description="Whether embeddings stay after their last use.",
        json_schema_extra=form("Caches", ""),
    )
    preprocess_cache_mb: float = Field(
        64.0,
        ge=0,
        le=1024,
        description="Patches that the preprocessing cache holds, as float32.",
        json_schema_extra=form("Caches", "MB"),
    )
    cache_budget_mb: float = Field(
        10_000.0,
        ge=0,
        le=200_000,
        description="What KV blocks and encoder cache may take of the accounted model's HBM together.",
        json_schema_extra=form("Caches", "MB"),
    )
    token_budget: int = Field(
        512,
        ge=16,
        le=1024,
        description="Tokens of one engine step.",
        json_schema_extra=form("Scheduler", "tokens"),
    )
    max_chunk: int = Field(
        0,
        ge=0,
        le=4096,
        description="Largest piece of one prompt in a step; 0: as much as the token budget leaves.",
        json_schema_extra=form("Scheduler", "tokens", zero="no limit"),
    )
    encoder_budget: int = Field(
        640,
        ge=16,
        le=8192,
        description="Embeddings that one step may encode.",
        json_schema_extra=form("Scheduler", "embeddings"),
    )
    model: Literal["qwen2-vl-7b", "qwen2.5-vl-7b", "qwen3-vl-4b", "internvl2-26b"] = Field(
        "internvl2-26b",
        description="Whose encoder and decoder the modelled times and bytes account. The torch model that really runs "
        "is far smaller.",
        json_schema_extra=form("Hardware", ""),
    )
    gpu: Literal["h100", "h200", "b200", "a100", "h20"] = Field(
        "h100", description="The GPU that the cost model accounts.", json_schema_extra=form("Hardware", "")
    )
    cluster_gpus: Literal[2, 4, 8] = Field(
        8,
        description="GPUs of the cluster in which encoder workers are compared with colocated ones.",
        json_schema_extra=form("Cluster", "GPUs"),
    )
    cluster_tensor_parallel: Literal[1, 2] = Field(
        2,
        description="GPUs of it that share one copy of the language model. An encoder never spans GPUs.",
        json_schema_extra=form("Cluster", "GPUs"),
    )
    cluster_spread_images: bool = Field(
        False,
        description="Whether colocated GPUs that share a copy share a step's pictures out, too; else one encodes "
        "and the others wait.",
        json_schema_extra=form("Cluster", ""),
    )
    cluster_encoder_workers: int = Field(
        4,
        ge=0,
        le=7,
        description="GPUs of it that only encode; 0: colocated.",
        json_schema_extra=form("Cluster", "GPUs"),
    )
    cluster_requests_per_s: float = Field(
        12.0,
        ge=0.1,
        le=200,
        description="Requests to the cluster, a Poisson process.",
        json_schema_extra=form("Cluster", "requests/s", "Cluster requests"),
    )
    cluster_image_percent: int = Field(
        60, ge=0, le=100, description="Requests with pictures.", json_schema_extra=form("Cluster", "%")
    )
    cluster_images: int = Field(
        4,
        ge=1,
        le=16,
        description="Pictures of such a request.",
        json_schema_extra=form("Cluster", "images"),
    )
    audio_s: int = Field(
        20,
        ge=1,
        le=600,
        description="Speech that a voice request brings, for the modelled audio encoder.",
        json_schema_extra=form("Other stages", "s"),
    )
    diffusion_steps: int = Field(
        28,
        ge=1,
        le=200,
        description="Denoising steps of the modelled image output stage.",
        json_schema_extra=form("Other stages", "steps"),
    )

    @field_validator("own_image")
    @classmethod
    def _own_image_is_one(cls, image: str, info: ValidationInfo) -> str:
        if info.data.get("picture") == "own" and not image:
            raise ValueError("picture is own, but there is no image")
        if image:
            refuse_what_is_no_image(image)
        return image

    @field_validator("second_picture_turn", "onset_turn", "processor_change_turn")
    @classmethod
    def _turn_comes(cls, turn: int, info: ValidationInfo) -> int:
        turns = info.data.get("turns")
        if turns is not None and turn > turns:
            raise ValueError(f"there are only {turns} turns")
        return turn

    @field_validator("tile_px")
    @classmethod
    def _a_tile_fits(cls, side: int, info: ValidationInfo) -> int:
        most = info.data.get("max_image_tokens")
        tokens = (side // TOKEN_PX) ** 2
        if info.data.get("scheme") == "tiles" and most is not None and tokens > most:
            raise ValueError(f"a tile has {tokens} tokens, max_image_tokens = {most}")
        return side

    @field_validator("kv_blocks")
    @classmethod
    def _the_longest_chat_fits(cls, blocks: int, info: ValidationInfo) -> int:
        if all(name in info.data for name in WORK_FIELDS):
            longest = longest_chat(info.data)
            if blocks * BLOCK_SIZE < longest:
                raise ValueError(
                    f"a chat may reach {longest:,} tokens: at least {-(-longest // BLOCK_SIZE)} blocks"
                )
        return blocks

    @field_validator("encoder_cache_embeddings", "encoder_budget")
    @classmethod
    def _an_image_fits(cls, embeddings: int, info: ValidationInfo) -> int:
        most = info.data.get("max_image_tokens")
        if most is not None and embeddings < most:
            raise ValueError(f"an image may have max_image_tokens = {most} embeddings")
        return embeddings

    @field_validator("encoder_budget")
    @classmethod
    def _work_is_bounded(cls, budget: int, info: ValidationInfo) -> int:
        if all(name in info.data for name in WORK_FIELDS):
            work = expected_us(info.data)
            if work > MAX_WORK_US:
                raise ValueError(
                    f"this run would take about {work // 1_000_000} s of one core, at most {MAX_WORK_US // 1_000_000}: "
                    "use fewer users, turns or max_image_tokens"
                )
        return budget

    @field_validator("cluster_encoder_workers")
    @classmethod
    def _leave_a_gpu(cls, workers: int, info: ValidationInfo) -> int:
        gpus = info.data.get("cluster_gpus")
        group = info.data.get("cluster_tensor_parallel")
        if gpus is not None and group is not None and (workers > gpus - group or (gpus - workers) % group):
            raise ValueError(
                f"{workers} encoder workers leave no whole groups of {group} of cluster_gpus = {gpus}"
            )
        return workers

    def expected_seconds(self) -> float:
        """Of a run on one core, roughly: half of what it takes if no cache ever hits."""
        return 1 + expected_us(self.model_dump()) / 2_000_000
