"""Classification: the blocks, the accuracy, and the weights that a model starts from."""

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary

from ln_repro.engine.plugin.classification import Classified, LabelledPairs, LnClassification
from ln_repro.engine.plugin.model import LnClassifier, LnEncoder
from ln_repro.engine.plugin.task import MASK
from tests.engine.made import Sentences, criterion, dictionary, encoder_only
from tests.examples import experiment
from tests.stock_binariser import binarise


@pytest.fixture
def words():
    words = dictionary(54)
    words.add_symbol(MASK)
    return words


def some_pairs(words, number=40, seed=3):
    """Return pairs of sentences of 1 to 6 words, and classes by turns."""
    draw = torch.Generator().manual_seed(seed)

    def side():
        lengths = torch.randint(1, 7, (number,), generator=draw).tolist()
        sentences = [torch.randint(4, 54, (length,), generator=draw) for length in lengths]
        return Sentences(torch.cat([sentence, torch.tensor([words.eos()])]) for sentence in sentences)

    return LabelledPairs(side(), side(), [index % 2 for index in range(number)], words, seed)


def test_a_block_is_a_mark_and_both_sentences_and_mini_batches_count_pairs(words):
    pairs = some_pairs(words)
    assert [len(block) for _, block, _ in pairs] == pairs.sizes.tolist()
    batch = pairs.collater([pairs[index] for index in (0, 1, 5)])
    assert (batch["ntokens"], batch["nsentences"], batch["target"].tolist()) == (3, 3, [0, 1, 1])
    for row, index in zip(batch["net_input"]["src_tokens"].tolist(), (0, 1, 5), strict=True):
        block = [words.bos(), *pairs.first[index].tolist(), *pairs.second[index].tolist()]
        assert row[: len(block)] == block and set(row[len(block) :]) <= {words.pad()}


@pytest.mark.usefixtures("double")
@torch.no_grad()
def test_accuracy_is_counted_over_all_mini_batches_and_class_one_is_not_padding(words):
    """Mini-batches are of unequal size, so the mean of their accuracies would differ."""
    pairs, model = some_pairs(words, 41), encoder_only(LnClassifier, words).eval()
    loss = criterion(0.0, kind=Classified, target=None)
    logs, right, nats = [], 0, 0.0
    for first in range(0, 41, 16):
        batch = pairs.collater([pairs[index] for index in range(first, min(first + 16, 41))])
        _, size, log = loss(model, batch)
        assert size == len(batch["target"])
        logs.append(log)
    for index, block, label in pairs:  # one by one, from the first token's final state, with torch's own loss
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


def test_the_task_reads_what_was_prepared_with_anothers_dictionary(tmp_path):
    (tmp_path / "bpe").mkdir()
    (tmp_path / "text").mkdir()
    words = Dictionary()
    for number in range(30):
        words.add_symbol(f"w{number}", 100 - number)
    words.save(str(tmp_path / "bpe" / "dict.txt"))
    (tmp_path / "bpe" / "train.sentence1").write_text("w3 w4\nw29\n")
    (tmp_path / "bpe" / "train.sentence2").write_text("w5\nstrange w1\n")
    (tmp_path / "text" / "train.label").write_text("1\n0\n")
    binarise(tmp_path / "bpe", tmp_path / "bin", "sentence1", "sentence2")
    languages = {"data__source_lang": "sentence1", "data__target_lang": "sentence2"}
    settings = experiment(task="classification", data__name="rte", **languages)
    task = LnClassification(settings, tmp_path / "bin")
    task.load_dataset("train")
    assert [task.dictionary.index(f"w{number}") for number in range(30)] == [*range(4, 34)]
    assert task.dictionary.index(MASK) == len(task.dictionary) - 1
    blocks = [(block.tolist(), label) for _, block, label in task.dataset("train")]
    assert blocks == [([0, 7, 8, 2, 9, 2], 1), ([0, 33, 2, 3, 5, 2], 0)]
