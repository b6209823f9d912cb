"""A small artificial language pair with the word order of German and English."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ln_repro.corpus.base import Corpus, Raw, RawFiles, Splits
from ln_repro.experiment.data import Data

SEED = 20200624  # seed of the generator; changing it changes the corpus
Forms = dict[str, str]  # the finite forms of a verb by person: 1 (I), 3 (he, she, it), p (plural)


@dataclass(frozen=True)
class Noun:
    """A noun in both languages; verbs select their objects by ``kind``."""

    german: str
    gender: str
    english: str
    kind: str
    plural: str = ""
    english_plural: str = ""


@dataclass(frozen=True)
class Verb:
    """A transitive verb; ``prefix`` is split off in a German main clause."""

    present: Forms
    prefix: str
    infinitive: str
    participle: str
    english: Forms
    english_participle: str
    objects: tuple[str, ...]


def _forms(first: str, third: str, plural: str) -> Forms:
    return {"1": first, "3": third, "p": plural}


def _verb(present: str, prefix: str, participle: str, english: str, objects: str) -> Verb:
    """Return a verb from German forms, 'first third plural', and English ones, 'base third participle [+particle]'."""
    forms, (words, _, particle) = present.split(), english.partition("+")
    base, third, done = (f"{word} {particle}".strip() for word in words.split())
    translation = _forms(base, third, base)
    return Verb(_forms(*forms), prefix, prefix + forms[2], participle, translation, done, tuple(objects.split()))


NOUNS = (
    Noun("Mann", "m", "man", "person", "Männer", "men"),
    Noun("Frau", "f", "woman", "person", "Frauen", "women"),
    Noun("Kind", "n", "child", "person", "Kinder", "children"),
    Noun("Freund", "m", "friend", "person", "Freunde", "friends"),
    Noun("Lehrerin", "f", "teacher", "person"),
    Noun("Arzt", "m", "doctor", "person", "Ärzte", "doctors"),
    Noun("Mädchen", "n", "girl", "person"),
    Noun("Onkel", "m", "uncle", "person"),
    Noun("Künstlerin", "f", "artist", "person"),
    Noun("Nachbar", "m", "neighbour", "person", "Nachbarn", "neighbours"),
    Noun("Hund", "m", "dog", "animal", "Hunde", "dogs"),
    Noun("Katze", "f", "cat", "animal", "Katzen", "cats"),
    Noun("Pferd", "n", "horse", "animal", "Pferde", "horses"),
    Noun("Tür", "f", "door", "opening", "Türen", "doors"),
    Noun("Fenster", "n", "window", "opening"),
    Noun("Koffer", "m", "suitcase", "opening"),
    Noun("Buch", "n", "book", "thing", "Bücher", "books"),
    Noun("Brief", "m", "letter", "thing", "Briefe", "letters"),
    Noun("Zeitung", "f", "newspaper", "thing"),
    Noun("Bild", "n", "picture", "thing", "Bilder", "pictures"),
    Noun("Apfel", "m", "apple", "food", "Äpfel", "apples"),
    Noun("Suppe", "f", "soup", "food"),
    Noun("Brot", "n", "bread", "food"),
    Noun("Kuchen", "m", "cake", "food"),
)

VERBS = (
    _verb("sehe sieht sehen", "", "gesehen", "see sees seen", "person animal thing"),
    _verb("suche sucht suchen", "", "gesucht", "seek seeks sought", "person animal thing"),
    _verb("finde findet finden", "", "gefunden", "find finds found", "person animal thing food"),
    _verb("frage fragt fragen", "", "gefragt", "ask asks asked", "person"),
    _verb("lese liest lesen", "", "gelesen", "read reads read", "thing"),
    _verb("kaufe kauft kaufen", "", "gekauft", "buy buys bought", "animal thing food opening"),
    _verb("esse isst essen", "", "gegessen", "eat eats eaten", "food"),
    _verb("koche kocht kochen", "", "gekocht", "cook cooks cooked", "food"),
    # Stems with two prefixes: the verb cannot be translated before the end of the clause has been read.
    _verb("mache macht machen", "auf", "aufgemacht", "open opens opened", "opening"),
    _verb("mache macht machen", "zu", "zugemacht", "close closes closed", "opening"),
    _verb("rufe ruft rufen", "an", "angerufen", "call calls called", "person"),
    _verb("rufe ruft rufen", "zurück", "zurückgerufen", "phone phones phoned +back", "person"),
    _verb("nehme nimmt nehmen", "mit", "mitgenommen", "take takes taken +along", "person animal thing food"),
    _verb("nehme nimmt nehmen", "weg", "weggenommen", "remove removes removed", "animal thing food"),
    _verb("hole holt holen", "ab", "abgeholt", "collect collects collected", "person animal thing"),
    _verb("lade lädt laden", "ein", "eingeladen", "invite invites invited", "person"),
)
PRONOUNS = (
    ("ich", "I", "1"), ("er", "he", "3"), ("wir", "we", "p"),
    # One word with two meanings, which only the ending of the verb distinguishes.
    ("sie", "she", "3"), ("sie", "they", "p"),
)  # fmt: skip
MODALS = (
    (_forms("kann", "kann", "können"), _forms("can", "can", "can")),
    (_forms("muss", "muss", "müssen"), _forms("must", "must", "must")),
    (_forms("will", "will", "wollen"), _forms("want to", "wants to", "want to")),
)
OPINIONS = (
    (_forms("glaube", "glaubt", "glauben"), _forms("believe", "believes", "believe")),
    (_forms("sage", "sagt", "sagen"), _forms("say", "says", "say")),
    (_forms("weiß", "weiß", "wissen"), _forms("know", "knows", "know")),
)
SUBORDINATORS = (("weil", "because"), ("wenn", "if"), ("obwohl", "although"))
MATRIX = (
    ("ich lache", "I laugh"), ("wir warten", "we wait"), ("er schläft", "he sleeps"),
    ("sie singt", "she sings"), ("sie singen", "they sing"),
)  # fmt: skip
ADVERBS = (("heute", "today"), ("morgens", "in the morning"), ("abends", "in the evening"),
           ("oft", "often"), ("jetzt", "now"), ("manchmal", "sometimes"))  # fmt: skip
PLACES = (("im Garten", "in the garden"), ("in der Küche", "in the kitchen"), ("in der Schule", "at school"),
          ("auf dem Markt", "at the market"), ("am See", "by the lake"), ("zu Hause", "at home"))  # fmt: skip
ARTICLES = {
    ("m", "nom"): "der", ("f", "nom"): "die", ("n", "nom"): "das", ("p", "nom"): "die",
    ("m", "acc"): "den", ("f", "acc"): "die", ("n", "acc"): "das", ("p", "acc"): "die",
}  # fmt: skip
INDEFINITE = {
    ("m", "nom"): "ein", ("f", "nom"): "eine", ("n", "nom"): "ein",
    ("m", "acc"): "einen", ("f", "acc"): "eine", ("n", "acc"): "ein",
}  # fmt: skip
HAVE = {"1": ("habe", "have"), "3": ("hat", "has"), "p": ("haben", "have")}


@dataclass(frozen=True)
class Phrase:
    """A noun phrase or pronoun in both languages; ``person`` (1, 3 or p) determines the form of the verb."""

    german: str
    english: str
    person: str


class Toy(Corpus):
    """Generated sentence pairs; each sentence has one correct translation, so that BLEU can approach 100."""

    name = "toy"
    generated = True
    description = "generated German-like to English-like sentences with real reordering"
    origin = "generated by ln-repro"
    licence = "MIT, as ln-repro"
    by_hand = "it is generated and needs no files"
    pairs: ClassVar[Mapping[str, int]] = {"train": 20_000, "valid": 500, "test": 500}

    def inputs(self, data: Data) -> list[Raw]:
        return []

    def read(self, data: Data, files: RawFiles) -> Splits:
        """Return the generated splits, which share no source and no target sentence."""
        pairs = generate()
        # The test set comes first, so that it does not depend on the size of train.
        splits = {name: [next(pairs) for _ in range(self.pairs[name])] for name in ("test", "valid", "train")}
        return {name: chosen for name, chosen in splits.items() if name in data.splits}


def generate() -> Iterator[tuple[str, str]]:
    """Yield pairs without repeated source or target sentences."""
    rng = random.Random(SEED)
    seen: set[str] = set()
    while True:
        german, english = _sentence(rng)
        if german not in seen and english not in seen:
            seen |= {german, english}
            yield german, english


def _sentence(rng: random.Random) -> tuple[str, str]:
    """Return a sentence pair with one or two clauses."""
    kind = rng.random()
    if kind < 0.5:
        german, _, english = _clause(rng)
    elif kind < 0.65:
        who, (verb, verb_english) = _subject(rng), rng.choice(OPINIONS)
        _, subordinate, clause = _clause(rng)
        german = _join(who.german, verb[who.person], ", dass", subordinate)
        english = _join(who.english, verb_english[who.person], "that", clause)
    elif kind < 0.85:
        (first, first_english), (word, word_english) = rng.choice(MATRIX), rng.choice(SUBORDINATORS)
        _, subordinate, clause = _clause(rng)
        german = _join(first, ",", word, subordinate)
        english = _join(first_english, word_english, clause)
    else:
        word, word_english = rng.choice(SUBORDINATORS)
        (_, subordinate, clause), (answer, answer_english) = _clause(rng), rng.choice(MATRIX)
        subject, verb_first, *rest = answer.split(" ")
        german = _join(word, subordinate, ",", verb_first, subject, *rest)
        english = _join(word_english, clause, ",", answer_english)
    return _finish(german), _finish(english)


def _clause(rng: random.Random) -> tuple[str, str, str]:
    """Return a German main clause, the same as a subordinate clause, and the English clause.

    The finite verb is second in the main clause; all verbs are at the end of the subordinate one.
    """
    subject, verb = _subject(rng), rng.choice(VERBS)
    thing = _noun_phrase(rng, rng.choice([noun for noun in NOUNS if noun.kind in verb.objects]), "acc")
    kind = rng.random()
    if kind < 0.4:
        finite, final = verb.present[subject.person], verb.prefix
        verbs, english_verb = verb.prefix + finite, verb.english[subject.person]
    elif kind < 0.7:
        finite, have_english = HAVE[subject.person]
        final = verb.participle
        verbs, english_verb = f"{final} {finite}", f"{have_english} {verb.english_participle}"
    else:
        modal, modal_english = rng.choice(MODALS)
        finite, final = modal[subject.person], verb.infinitive
        verbs, english_verb = f"{final} {finite}", f"{modal_english[subject.person]} {verb.english['p']}"
    time = rng.choice(ADVERBS) if rng.random() < 0.45 else ("", "")
    place = rng.choice(PLACES) if rng.random() < 0.35 else ("", "")
    front = time[0] if time[0] and rng.random() < 0.5 else ""
    middle = _join(thing.german, "" if front else time[0], place[0])
    start = (front, finite, subject.german) if front else (subject.german, finite)
    return (
        _join(*start, middle, final),
        _join(subject.german, front, middle, verbs),
        _join(subject.english, english_verb, thing.english, place[1], time[1]),
    )


def _subject(rng: random.Random) -> Phrase:
    """Return a pronoun, or a noun that denotes a person, in the nominative."""
    if rng.random() < 0.35:
        return Phrase(*rng.choice(PRONOUNS))
    return _noun_phrase(rng, rng.choice([noun for noun in NOUNS if noun.kind == "person"]), "nom")


def _noun_phrase(rng: random.Random, noun: Noun, case: str) -> Phrase:
    """Return a noun with an article that agrees in gender, number and case."""
    if noun.plural and rng.random() < 0.3:
        return Phrase(f"{ARTICLES['p', case]} {noun.plural}", f"the {noun.english_plural}", "p")
    if rng.random() < 0.3:
        article = "an" if noun.english[0] in "aeiou" else "a"
        return Phrase(f"{INDEFINITE[noun.gender, case]} {noun.german}", f"{article} {noun.english}", "3")
    return Phrase(f"{ARTICLES[noun.gender, case]} {noun.german}", f"the {noun.english}", "3")


def _join(*parts: str) -> str:
    """Join the non-empty parts with spaces."""
    return " ".join(part for part in parts if part)


def _finish(sentence: str) -> str:
    """Capitalise the sentence, remove spaces before commas, and add a full stop."""
    return f"{sentence[0].upper()}{sentence[1:]}.".replace(" ,", ",")
