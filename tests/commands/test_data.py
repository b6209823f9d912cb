"""`ln-repro data`: what is prepared, where, and whether it still is what was prepared."""

from pathlib import Path


def test_a_corpus_is_prepared_listed_and_verified(empty_place, call, refused):
    pairs = {"train": 300, "valid": 20, "test": 10}
    for split, number in pairs.items():
        for side in ("de", "en"):
            lines = (f"{side}{index} {side}{index % 7}\n" for index in range(number))
            (empty_place / f"{split}.{side}").write_text("".join(lines))
    corpus = ["data=files", "data.bpe_merges=0", *(f"data.{split}={split}" for split in pairs)]

    def row() -> list[str]:
        code, out, _ = call("data", "list")
        assert code == 0
        return next(line for line in out.splitlines() if line.startswith("files ")).split()

    assert row()[:2] == ["files", "absent"]
    assert call("data", "list")[1].startswith("corpus    state     pairs ")
    assert "de-en.tgz, its unpacked folder, or the folder that the script made" in call("data", "list")[1]
    code, out, _ = call("data", "prepare", *corpus)
    folder = Path(out.strip())
    assert code == 0 and empty_place / "data" in folder.absolute().parents
    assert row()[:2] == ["files", "prepared"]
    assert call("data", "prepare", *corpus)[:2] == (0, out)  # once more does nothing
    assert call("data", "verify", *corpus)[:2] == (0, "files: every checksum and count matches\n")

    code, out, _ = call("data", "prepare", *corpus, "data.only=test")
    paths = [Path(line) for line in out.splitlines()]
    assert code == 0 and [path.name for path in paths] == ["test.de", "test.en"]
    assert paths[0].read_text().splitlines()[9] == "de9 de2"

    (folder / "manifest.json").write_text("{}")
    assert "manifest.json: unreadable; delete" in refused(["data", "verify", *corpus])
    paths[1].write_text("something else\n")
    assert "test.en" in refused(["data", "verify", *corpus, "data.only=test"])
