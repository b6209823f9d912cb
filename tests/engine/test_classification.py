"""Classification: the blocks, the accuracy, and the weights that a model starts from."""

import numpy as np
import pytest
import torch

from ln_repro.engine.plugin.bert import MASK, Classified, LnClassification, labelled_pairs
from ln_repro.engine.plugin.model import LnClassifier, LnEncoder
from tests.engine.made import Sentences, criterion, dictionary, encoder_only


@pytest.fixture
def words():
    words = dictionary(54)
    words.add_symbol(MASK)
    return words


def some_pairs(words, number=40, seed=3):
    """Return sentences of 1 to 6 words, and the data set of their pairs, with classes by turns."""
    draw = torch.Generator().manual_seed(seed)

    def side():
        lengths = torch.randint(1, 7, (number,), generator=draw).tolist()
        sentences = [torch.randint(4, 54, (length,), generator=draw) for length in lengths]
        return Sentences(torch.cat([sentence, torch.tensor([words.eos()])]) for sentence in sentences)

    first, second = side(), side()
    return first, second, labelled_pairs(first, second, [index % 2 for index in range(number)], words, seed)


def test_a_block_is_a_mark_and_both_sentences_and_mini_batches_count_pairs(words):
    first, second, pairs = some_pairs(words)
    assert sorted(pairs.ordered_indices()) == list(range(40)) != [*pairs.ordered_indices()]
    batch = pairs.collater([pairs[index] for index in (0, 1, 5)])
    assert (batch["ntokens"], batch["target"].tolist()) == (3, [0, 1, 1])
    for row, index in zip(batch["net_input"]["src_tokens"].tolist(), (0, 1, 5), strict=True):
        block = [words.bos(), *first[index].tolist(), *second[index].tolist()]
        assert pairs.num_tokens(index) == pairs.size(index) == len(block)
        assert row[: len(block)] == block and set(row[len(block) :]) <= {words.pad()}


@pytest.mark.usefixtures("double")
@torch.no_grad()
def test_accuracy_is_counted_over_all_mini_batches_and_class_one_is_not_padding(words):
    (_, _, pairs), model = some_pairs(words, 41), encoder_only(LnClassifier, words).eval()
    loss = criterion(0.0, kind=Classified, target=None)
    logs, right, nats = [], 0, 0.0
    for first in range(0, 41, 16):
        batch = pairs.collater([pairs[index] for index in range(first, min(first + 16, 41))])
        _, size, log = loss(model, batch)
        assert size == len(batch["target"])
        logs.append(log)
    for index in range(41):  # one by one, from the first token's final state, with torch's own loss
        block, label = pairs[index]["net_input.src_tokens"], pairs[index]["target"]
        logits = model.encoder(block[None])["x"][0] @ model.classifier.weight.T
        assert logits.shape == (1, 2) and label == index % 2
        right += int(logits[0].argmax()) == label
        nats += float(torch.nn.functional.cross_entropy(logits, torch.tensor([label])))
    values = LnClassification.metrics(None, logs)
    assert not model.classifier.bias.any()
    assert 0 < right < 41 and values["accuracy"] == right / 41
    assert values["loss"] == values["nll_loss"] == pytest.approx(nats / 41 / np.log(2))


@pytest.mark.parametrize("norm", ["postln", "preln"])
def test_a_start_is_the_whole_encoder_and_the_classifier_is_new(words, norm, tmp_path):
    pretrained = encoder_only(LnEncoder, words, norm, seed=5)
    torch.save({"model": pretrained.state_dict()}, tmp_path / "epoch1.pt")
    start = str(tmp_path / "epoch1.pt")
    plain, started = (encoder_only(LnClassifier, words, norm, start=file) for file in (None, start))
    theirs = pretrained.encoder.state_dict()
    assert all(torch.equal(weight, theirs[name]) for name, weight in started.encoder.state_dict().items())
    assert torch.equal(started.classifier.weight, plain.classifier.weight)
    assert not torch.equal(started.encoder.embed.embedding.weight, plain.encoder.embed.embedding.weight)
    with pytest.raises(RuntimeError, match="norm"):
        encoder_only(LnClassifier, words, "postln" if norm == "preln" else "preln", start=start)
