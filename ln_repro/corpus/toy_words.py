"""The vocabulary of the toy language pair."""

from dataclasses import dataclass

Forms = dict[str, str]
"""The finite forms of a verb by person: 1 (I), 3 (he, she, it), p (plural)."""


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
    base: str
    third: str
    english_participle: str
    objects: tuple[str, ...]

    def english(self, person: str) -> str:
        """Return the English present."""
        return self.third if person == "3" else self.base


def _forms(first: str, third: str, plural: str) -> Forms:
    return {"1": first, "3": third, "p": plural}


def _verb(present: str, prefix: str, participle: str, english: str, objects: str) -> Verb:
    """Return a verb from German forms, 'first third plural', and English ones, 'base third participle [+particle]'."""
    forms, (words, _, particle) = present.split(), english.partition("+")
    base, third, done = (f"{word} {particle}".strip() for word in words.split())
    return Verb(_forms(*forms), prefix, prefix + forms[2], participle, base, third, done, tuple(objects.split()))


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
