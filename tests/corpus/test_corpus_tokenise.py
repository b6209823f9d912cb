"""Tokens, subwords and binary files are those of Moses' scripts, subword-nmt and fairseq; and the pool of processes."""

import io
import random
import signal
import subprocess
import sys
from collections import Counter

import psutil
import pytest
from subword_nmt.apply_bpe import BPE

from ln_repro.corpus import build, subwords
from ln_repro.corpus.base import Style
from ln_repro.corpus.subwords import learn, segmenter
from ln_repro.corpus.text import lower
from ln_repro.corpus.tokenise import detokenise, tokeniser
from ln_repro.errors import LnReproError
from ln_repro.system import pool
from ln_repro.system.subprocesses import environment
from tests.corpus.conftest import write
from tests.stock_binariser import binarise
from tests.waiting import until


@pytest.mark.parametrize(("lang", "text", "expected"), [
    ("en", "He lives in the U.S.", "He lives in the U.S ."),  # the last word always loses its stop
    ("en", "The U.S. is large.", "The U.S. is large ."),
    ("en", "See No. 5 now.", "See No. 5 now ."),  # an abbreviation before a number only
    ("en", "No. Never.", "No . Never ."),
    ("de", "Das ist Dr. Müller.", "Das ist Dr. Müller ."),
    ("de", "Wir sahen Dr.", "Wir sahen Dr ."),
    ("en", "It's 5,300, isn't it?", "It &apos;s 5,300 , isn &apos;t it ?"),
    ("en", "Wait... [sic] & <b>", "Wait ... &#91; sic &#93; &amp; &lt; b &gt;"),
])  # fmt: skip
def test_full_stops_and_escapes(lang, text, expected):
    assert tokeniser(lang, Style())(text) == expected


def test_styles_and_codes_of_languages():
    assert tokeniser("en", Style(aggressive=True))("a well-known fact") == "a well @-@ known fact"
    assert tokeniser("en", Style(normalise=True))("“Yes”\u200b, he said") == "&quot; Yes &quot; , he said"
    assert tokeniser("en", Style(apostrophes=True))("it\u2019s") == "it &apos;s"
    assert tokeniser("de_AT", Style())("Am 3. Mai bzw. im Juni.") == "Am 3. Mai bzw. im Juni ."
    assert lower("ΟΔΟΣ Straße ÄÖÜ") == "οδοσ straße äöü"  # as in Perl


def test_detokenised_text_reads_as_it_was_written():
    tokenised = ["he said : &quot; it &apos;s nothing , really . &quot;", "", "i don &apos;t know ( yet ) ."]
    assert detokenise(tokenised, "en") == ['he said: "it\'s nothing, really."', "", "i don't know (yet)."]


WORKERS = """
from multiprocessing import active_children
from ln_repro.system import pool

def wait(item):
    import time
    time.sleep(0.05)
    return item

if __name__ == "__main__":
    pool.cores = lambda: 2
    results = pool.apply(wait, range(1000))
    assert [next(results) for _ in range(10)] == list(range(10))
    print(*[child.pid for child in active_children()], flush=True)
    list(results)
"""


def test_workers_keep_the_order_and_do_not_outlive_a_killed_parent(tmp_path):
    script = write(tmp_path / "script.py", WORKERS)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        workers = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        process.kill()
    assert len(workers) == 2
    ended = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    until(lambda: all(not worker.is_running() or worker.status() in ended for worker in workers))


def test_a_killed_worker_is_reported(monkeypatch):
    monkeypatch.setattr(pool, "cores", lambda: 2)
    with pytest.raises(LnReproError, match="a process was killed, possibly out of memory; run the command again"):
        list(pool.apply(signal.raise_signal, [signal.SIGKILL] * 9))


def test_words_are_segmented_as_by_subword_nmt_and_very_long_ones_into_characters(monkeypatch):
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdé", k=draw.randint(1, 9))) for _ in range(2000)]
    codes = learn(Counter(words), 300)
    theirs, ours = BPE(io.StringIO(codes)), segmenter.__wrapped__(codes)
    monkeypatch.setattr(subwords, "LONGEST", 10)
    for line in (" ".join(words), "", " ", " a  unknownß b ", "ab ab "):
        assert ours(line) == theirs.process_line(line)
    assert ours("ab " + "ab" * 6) == "ab " + "@@ ".join("ab" * 6)


@pytest.mark.parametrize("vocabulary", ["own", "given", "large"])
def test_the_binary_files_are_those_of_fairseq_preprocess(made, tmp_path, vocabulary, monkeypatch):
    monkeypatch.setattr(build, "CHUNK_SIZE", 7)
    draw = random.Random(1)
    few = ["ein", "haus", "ist", "zwölf", "house", "x"]
    words = [*few, *(f"w{number}" for number in range(66_000))] if vocabulary == "large" else few
    for split, count in (("train", 30), ("valid", 8), ("test", 1)):
        for lang in ("de", "en"):
            lines = [" ".join(draw.choices(few, k=draw.randint(1, 9))) for _ in range(count)]
            if split == "train":
                lines += [" ".join(words[start : start + 500]) for start in range(0, len(words), 500)]
            write(tmp_path / f"{split}.{lang}", *lines)
    prefixes = {split: tmp_path / split for split in ("train", "valid", "test")}
    first = made("files", bpe_merges=0, **prefixes)
    if vocabulary == "given":
        write(tmp_path / "train.de", "haus neu")
        write(tmp_path / "train.en", "house new")
        first = made("files", bpe_merges=0, vocabulary=first.fingerprint, **prefixes)
    binarise(first.folder / "bpe", tmp_path / "theirs", "de", "en")
    binary = {path.name: path.read_bytes() for path in first.bin.iterdir()}
    assert binary == {path.name: path.read_bytes() for path in (tmp_path / "theirs").iterdir() if path.suffix != ".log"}
    assert len(binary) == 14
