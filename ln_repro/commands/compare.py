"""`ln-repro compare`: test the difference in BLEU between two archived records."""

import argparse

from ln_repro.commands.archive import translations
from ln_repro.errors import UserError
from ln_repro.records.archive import read_kept, records_folder
from ln_repro.runner import bleu


def compare_command(options: argparse.Namespace) -> int:
    """Run `compare`: test the difference in BLEU between two archived records by paired bootstrap."""
    folder = options.records or records_folder()
    records = {record["id"]: record for record in read_kept(folder).records}
    if missing := [id for id in options.ids if id not in records]:
        raise UserError(f"compare: there is no record {', '.join(missing)} in {folder} (ids are in its file names)")
    first, second = (records[id] for id in options.ids)
    if first["data"]["fingerprint"] != second["data"]["fingerprint"]:
        raise UserError("compare: the two were trained on different corpora")
    texts = [translations(folder, record) for record in (first, second)]
    if not all(texts):
        raise UserError(
            "compare: needs the hypotheses of both, beside the records, and their corpus (ln-repro data prepare)"
        )
    (one, references), (other, _) = (text for text in texts if text)
    *scores, p_value = bleu.paired_bootstrap(one, other, references, first["experiment"]["data"]["lowercase"])
    for record, score in zip((first, second), scores, strict=True):
        print(f"{record['id']}  {record['exp']}  seed {record['axes']['seed']}  BLEU {score:.2f}")
    print(f"p = {p_value:.4f} ({bleu.SAMPLES} paired bootstrap samples of the test set; seeds vary in addition)")
    return 0
