"""Masked language modelling: which tokens are hidden, when the masks change, and the model."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from ln_repro.engine.plugin import bert
from ln_repro.engine.plugin.bert import LnMaskedLm, MaskedBlocks
from ln_repro.engine.plugin.model import LnEncoder
from ln_repro.errors import UserError
from tests.engine.made import Sentences, criterion, dictionary, encoder_only
from tests.examples import experiment

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")  # fairseq copies a tensor by NumPy
WORDS = 400


@pytest.fixture
def words():
    return dictionary(4 + WORDS)


def blocks(words, text, seed=7, renewed=True):
    mask = words.add_symbol("<mask>")
    return MaskedBlocks(text, words, mask, seed, renewed), mask


def some_text(number=300, length=128, seed=3):
    draw = torch.Generator().manual_seed(seed)
    return Sentences(torch.randint(4, 4 + WORDS, (length,), generator=draw) for _ in range(number))


def test_fifteen_percent_are_predicted_and_split_as_in_bert(words):
    text = some_text()
    dataset, mask = blocks(words, text)
    shown, hidden = (torch.stack([block[part] for block in dataset]) for part in (1, 2))
    true, asked = torch.stack(list(text)), hidden.ne(words.pad())
    number = int(asked.sum())

    def near(count, share, of):
        return abs(count - share * of) < 4 * math.sqrt(of * share * (1 - share))

    assert number / asked.numel() == pytest.approx(0.15, abs=1 / 128)
    assert torch.equal(hidden[asked], true[asked])  # the answers are the words themselves
    assert torch.equal(shown[~asked], true[~asked])  # nothing else is touched
    masked, same = shown[asked].eq(mask), shown[asked].eq(true[asked])
    assert near(int(masked.sum()), 0.8, number)
    assert near(int(same.sum()), 0.1 + 0.1 / WORDS, number)
    assert near(int((~masked & ~same).sum()), 0.1 * (1 - 1 / WORDS), number)


def of_epoch(epoch, dataset):
    """Return the input tokens of all blocks in an epoch."""
    dataset.set_epoch(epoch)
    return torch.stack([shown for _, shown, _ in dataset])


def test_masks_change_in_every_epoch_of_training_only_and_depend_on_nothing_but_the_epoch(words):
    text = some_text(20)
    dataset, again, reseeded = (blocks(words, text, seed=seed)[0] for seed in (7, 7, 8))
    first, second = of_epoch(1, dataset), of_epoch(2, dataset)
    assert not torch.equal(first, second) and not torch.equal(first, of_epoch(1, reseeded))
    assert torch.equal(of_epoch(1, dataset), first)
    assert torch.equal(of_epoch(2, again), second)  # of a process that began later
    validation, _ = blocks(words, text, renewed=False)
    assert torch.equal(of_epoch(1, validation), of_epoch(2, validation))


def test_masks_do_not_depend_on_other_threads(words):
    """Training and validation prefetch in separate threads, which share NumPy's generator."""
    alone, *datasets = (blocks(words, some_text(200))[0] for _ in range(5))
    expected = of_epoch(1, alone)
    with ThreadPoolExecutor(4) as threads:
        assert all(torch.equal(shown, expected) for shown in threads.map(of_epoch, [1] * 4, datasets))


def test_a_mini_batch_predicts_only_the_hidden_tokens(words):
    dataset, _ = blocks(words, Sentences([*some_text(3, 40), *some_text(1, 11)]))
    samples = [dataset[index] for index in range(4)]
    batch = dataset.collater(samples)
    rows = batch["net_input"]["src_tokens"]
    assert rows.shape == (4, 40) and rows[3, 11:].eq(words.pad()).all()
    places = [divmod(int(at), 40) for at in batch["net_input"]["positions"]]
    assert [int(samples[row][2][column]) for row, column in places] == batch["target"].tolist()
    assert batch["ntokens"] == len(places) == sum(int(s[2].ne(words.pad()).sum()) for s in samples)


def test_text_is_cut_into_blocks_of_one_length(corpus, monkeypatch):
    """The corpus is that of a translation, of which the target side is used."""
    task = LnMaskedLm(experiment(task="masked_lm", train__block_tokens=16), corpus)
    task.load_dataset("train")
    task.load_dataset("valid")
    train, valid = task.dataset("train"), task.dataset("valid")
    text = [train.text[index] for index in range(len(train))]
    assert {len(block) for block in text[:-1]} == {16}
    assert all(block[0] == task.source_dictionary.bos() for block in text)
    joined = task.source_dictionary.string(torch.cat([block[1:] for block in text]), include_eos=True)
    sentences = (corpus.parent / "text" / "train.en").read_text().splitlines()
    assert joined == "".join(f"{line} </s> " for line in sentences).strip()
    assert (train.renewed, valid.renewed) == (True, False) and train.seed != valid.seed
    monkeypatch.setattr(bert, "PREDICTED", 1e-9)  # as in a text of a few words
    with pytest.raises(UserError, match=r"data\.valid: no token of so short a text is masked"):
        task.load_dataset("valid")


@pytest.mark.usefixtures("double")
@torch.no_grad()
def test_logits_are_those_of_the_given_positions_and_padding_changes_none(words):
    model = encoder_only(LnEncoder, words).eval()
    tokens = torch.randint(4, WORDS, (3, 9))
    tokens[2, 6:] = words.pad()
    everywhere = torch.stack([model.encoder(row[None])["x"][:, 0] for row in tokens[:2]]) @ model.projection.weight.T
    shorter = model.encoder(tokens[2:, :6])["x"][:, 0] @ model.projection.weight.T
    asked = torch.tensor([0, 4, 10, 17, 18, 23])
    expected = torch.cat([everywhere.flatten(0, 1), shorter])[asked]
    torch.testing.assert_close(model(tokens, asked)[0], expected)


def test_a_mini_batch_without_hidden_tokens_has_no_loss_and_no_gradient(words):
    dataset, _ = blocks(words, some_text(1, 12))
    shown = dataset[0][1]
    batch = dataset.collater([(0, shown, torch.full_like(shown, words.pad()))])
    model = encoder_only(LnEncoder, words)
    total, _, log = criterion()(model, batch)
    total.backward()
    assert total.item() == log["nll_loss"].item() == batch["ntokens"] == 0
    assert all(not parameter.grad.any() for parameter in model.parameters())
