"""Convert text with a joint BPE to fairseq's binary format, in a worker."""

from pathlib import Path

from fairseq import options
from fairseq_cli import preprocess


def binarise(arguments: list[str]) -> int:
    """Binarise a corpus; ``arguments`` are its folder, the output folder, and the two languages.

    The dictionary is built from the training split, unless the folder has a ``dict.txt``.
    """
    text, out, source, target = arguments
    command = ["--source-lang", source, "--target-lang", target, "--destdir", out, "--joined-dictionary"]
    command += ["--only-source"] if source == target else []  # monolingual text
    if (words := Path(text, "dict.txt")).exists():
        command += ["--srcdict", str(words)]
    for split in ("train", "valid", "test"):
        if Path(text, f"{split}.{target}").exists():
            command += [f"--{split}pref", f"{text}/{split}"]
    preprocess.main(options.get_preprocessing_parser().parse_args([*command, "--workers", "1"]))
    return 0
