"""Shapes of the model and the encoder, and weights that are the same everywhere."""

import pytest
import torch

from simworkers.engine.encoder import Encoder, EncoderShape
from simworkers.engine.model import ModelShape, ModelWeights
from simworkers.engine.weights import WeightSource
from tests.simworkers.engine.scenes import ENCODER_SHAPE, SHAPE, encoder, image


def test_weights_have_the_documented_shapes():
    weights = ModelWeights.draw(SHAPE, 0)
    layer = weights.layers[0]
    wide = SHAPE.heads * SHAPE.head_dim
    assert weights.embedding.shape == weights.head.shape == (SHAPE.vocabulary, SHAPE.hidden)
    assert layer.qkv.shape == (wide + 2 * SHAPE.kv_heads * SHAPE.head_dim, SHAPE.hidden)
    assert layer.out.shape == (SHAPE.hidden, wide)
    assert layer.gate_up.shape == (2 * SHAPE.feed_forward, SHAPE.hidden)
    assert layer.down.shape == (SHAPE.hidden, SHAPE.feed_forward)


def test_a_weight_depends_on_seed_and_name_and_nothing_else():
    first = WeightSource(3, torch.float64)
    first.matrix("other", 4, 4)
    assert torch.equal(first.matrix("m", 2, 3), WeightSource(3, torch.float64).matrix("m", 2, 3))
    assert not torch.equal(first.matrix("m", 2, 3), WeightSource(4, torch.float64).matrix("m", 2, 3))


def test_weights_have_the_variance_that_keeps_activations_in_size():
    weights = WeightSource(0, torch.float64).matrix("m", 200, 200)
    assert float(weights.var()) == pytest.approx(1 / 200, rel=0.05)


@pytest.mark.parametrize(
    ("field", "values"), [("hidden", {"hidden": 40}), ("kv_heads", {"heads": 4, "kv_heads": 3})]
)
def test_a_shape_that_does_not_fit_names_its_field(field, values):
    with pytest.raises(ValueError, match=f"^{field}: "):
        ModelShape(**values)


def test_an_update_has_the_next_version():
    weights = ModelWeights.draw(SHAPE, 0)
    assert weights.updated(norm=weights.norm * 2).version == 1


def test_an_image_has_an_embedding_for_every_square_of_patches():
    picture = image(1, 0, rows=4, columns=6)
    embeddings = encoder().encode(picture.patches, picture.grid)
    assert embeddings.shape == (6, ENCODER_SHAPE.out)


def test_tiles_are_encoded_each_by_itself():
    left, right = image(1, 0), image(2, 0)
    both = encoder().encode(torch.cat([left.patches, right.patches]), left.grid + right.grid)
    alone = torch.cat([encoder().encode(one.patches, one.grid) for one in (left, right)])
    assert torch.equal(both, alone)


def test_the_same_patches_in_another_shape_are_another_image():
    wide, tall = image(1, 0, rows=2, columns=8), image(1, 0, rows=8, columns=2)
    assert torch.equal(wide.patches, tall.patches)
    one, other = (encoder().encode(picture.patches, picture.grid) for picture in (wide, tall))
    assert not torch.allclose(one, other)


def test_a_grid_that_does_not_fit_its_patches_is_refused():
    with pytest.raises(ValueError, match=r"^grid: "):
        Encoder(EncoderShape(patch_numbers=12), 0).encode(torch.zeros(15, 12), ((4, 4),))
