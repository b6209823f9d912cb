"""The tokenizer against what the original Moses scripts make, and the pool of processes."""

import contextlib
import signal
import subprocess
import sys

import psutil
import pytest
from corpus_helpers import write

from ln_repro.corpus.base import Style
from ln_repro.corpus.text import lower
from ln_repro.corpus.tokenise import tokeniser
from ln_repro.errors import LnReproError
from ln_repro.system import pool
from ln_repro.system.subprocesses import environment
from tests.waiting import until


@pytest.mark.parametrize(
    ("lang", "text", "expected"),
    [
        ("en", "He lives in the U.S.", "He lives in the U.S ."),  # the last word always loses its stop
        ("en", "The U.S. is large.", "The U.S. is large ."),
        ("en", "See No. 5 now.", "See No. 5 now ."),  # an abbreviation before a number only
        ("en", "No. Never.", "No . Never ."),
        ("de", "Das ist Dr. Müller.", "Das ist Dr. Müller ."),
        ("de", "Wir sahen Dr.", "Wir sahen Dr ."),
        ("en", "It's 5,300, isn't it?", "It &apos;s 5,300 , isn &apos;t it ?"),
        ("en", "Wait... [sic] & <b>", "Wait ... &#91; sic &#93; &amp; &lt; b &gt;"),
    ],
)
def test_full_stops_and_escapes(lang, text, expected):
    assert tokeniser(lang, Style())(text) == expected


@pytest.mark.parametrize("lang", ["DE", "de_DE", "de-AT", "de_Latn"])
def test_another_form_of_a_code_has_the_rules_of_the_language(lang):
    assert tokeniser(lang, Style())("Am 3. Mai bzw. im Juni.") == "Am 3. Mai bzw. im Juni ."
    assert tokeniser(lang, Style(normalise=True))("1,5 „x“") == tokeniser("de", Style(normalise=True))("1,5 „x“")


def test_styles():
    assert tokeniser("en", Style(aggressive=True))("a well-known fact") == "a well @-@ known fact"
    assert tokeniser("en", Style(normalise=True))("“Yes”\u200b, he said") == "&quot; Yes &quot; , he said"
    assert tokeniser("en", Style(apostrophes=True))("it\u2019s") == "it &apos;s"


def test_lower_case_is_perls():
    assert lower("ΟΔΟΣ Straße ÄÖÜ") == "οδοσ straße äöü"


WORKERS = """
from multiprocessing import active_children
from ln_repro.system import pool

def wait(item):
    import time
    time.sleep(0.05)
    return item

if __name__ == "__main__":
    pool.cores = lambda: 2
    results = pool.apply(wait, range(1000), True)
    assert [next(results) for _ in range(10)] == list(range(10))
    print(*[child.pid for child in active_children()], flush=True)
    list(results)
"""


def alive(process: psutil.Process) -> bool:
    """Return whether a process runs; one that waits to be reaped does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def test_workers_keep_the_order_and_do_not_outlive_a_killed_parent(tmp_path):
    script = write(tmp_path / "script.py", WORKERS)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stdout is not None
        workers = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        process.kill()
    assert len(workers) == 2
    until(lambda: not any(map(alive, workers)))


def test_a_killed_worker_is_reported(monkeypatch):
    monkeypatch.setattr(pool, "cores", lambda: 2)
    with pytest.raises(LnReproError, match="a process was killed, possibly out of memory; run the command again"):
        list(pool.apply(signal.raise_signal, [signal.SIGKILL] * 9, True))
