"""Text with a joint BPE to fairseq's binary format, in the engine's process."""

from fairseq import options
from fairseq_cli import preprocess


def binarise(arguments: list[str]) -> int:
    """Binarise the folder, into the folder, for the two languages that ``arguments`` name in this order."""
    text, out, source, target = arguments
    command = ["--source-lang", source, "--target-lang", target, "--destdir", out, "--joined-dictionary"]
    for split in ("train", "valid", "test"):
        command += [f"--{split}pref", f"{text}/{split}"]
    preprocess.main(options.get_preprocessing_parser().parse_args([*command, "--workers", "1"]))
    return 0
