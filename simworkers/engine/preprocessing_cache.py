"""The cache of preprocessed pictures: patches by file and processor arguments, the least recently used leave first."""

from collections import OrderedDict
from hashlib import sha256

from simworkers.engine.patches import ProcessedImage, ProcessorArgs

Key = tuple[bytes, ProcessorArgs]


def cache_key(data: bytes, args: ProcessorArgs) -> Key:
    """What the patches follow from: the bytes of the file and the processor's arguments."""
    return sha256(data).digest(), args


class PreprocessingCache:
    """Holds at most `budget_bytes` of patches. A picture above the whole budget is not kept."""

    def __init__(self, budget_bytes: int) -> None:
        if budget_bytes < 0:
            raise ValueError(f"budget_bytes: must be at least 0, not {budget_bytes}")
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self.evictions = 0
        self._images: OrderedDict[Key, ProcessedImage] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        return len(self._images)

    def __contains__(self, key: Key) -> bool:
        return key in self._images

    def get(self, key: Key) -> ProcessedImage | None:
        """The picture under `key`, which now counts as the one used last."""
        image = self._images.get(key)
        if image is not None:
            self._images.move_to_end(key)
        return image

    def put(self, key: Key, image: ProcessedImage) -> None:
        """Keep a picture, at the expense of those that were used longest ago."""
        if key in self._images or image.patches.nbytes > self.budget_bytes:
            return
        while self.used_bytes + image.patches.nbytes > self.budget_bytes:
            _, oldest = self._images.popitem(last=False)
            self.used_bytes -= oldest.patches.nbytes
            self.evictions += 1
        self._images[key] = image
        self.used_bytes += image.patches.nbytes

    def reset(self) -> None:
        """Forget every picture. What was counted stays."""
        self._images.clear()
        self.used_bytes = 0

    def check_integrity(self) -> None:
        """AssertionError if the books do not match what is held, or somebody may write to it."""
        held_bytes = sum(image.patches.nbytes for image in self._images.values())
        assert held_bytes == self.used_bytes <= self.budget_bytes, (held_bytes, self.used_bytes)
        for (_, args), image in self._images.items():
            patches = sum(rows * columns for rows, columns in image.grid)
            assert image.patches.shape == (patches, args.patch_dim), image.patches.shape
            assert image.num_tokens == patches // args.merge**2, image.num_tokens
            assert not image.patches.flags.writeable, "patches in the cache can be written to"
