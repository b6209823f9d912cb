"""All corpora by name."""

from ln_repro.corpus.base import Corpus
from ln_repro.corpus.glue import Mrpc, Rte
from ln_repro.corpus.iwslt14 import Iwslt14
from ln_repro.corpus.multi30k import Multi30k
from ln_repro.corpus.own_text import Files, Monolingual, Wikinews
from ln_repro.corpus.tatoeba import Tatoeba
from ln_repro.corpus.toy import Toy
from ln_repro.corpus.wmt14 import Wmt14
from ln_repro.experiment.data import Data

CORPORA: dict[str, Corpus] = {
    corpus.name: corpus
    for corpus in (Toy(), Multi30k(), Tatoeba(), Iwslt14(), Wmt14(), Files(), Monolingual(), Wikinews(), Mrpc(), Rte())
}


def corpus_of(data: Data) -> Corpus:
    """Return the corpus that these settings name, for the form in which ``data.source`` has it."""
    return CORPORA[data.name].in_form_of(data)
