"""The checkpoint folder: what is listed is whole, and damage costs one checkpoint at most."""

import pytest

from ln_repro.engine.checkpoints import Checkpoints
from ln_repro.errors import LnReproError

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def saved(tmp_path):
    checkpoints = Checkpoints(tmp_path / "check points'\n")
    for update in (10, 20, 30):
        checkpoints.save("state", update, 1, lambda path, u=update: path.write_bytes(CONTENT + bytes([u])))
    checkpoints.save("weights", 30, 1, lambda path: path.write_bytes(b"weights"))
    return checkpoints


def test_the_newest_states_and_all_weights_are_kept_and_those_after_a_point_are_forgotten(saved):
    assert [(entry.kind, entry.update) for entry in saved.entries()] == [("state", 20), ("state", 30), ("weights", 30)]
    assert {path.name for path in saved.folder.glob("*.pt")} == {"epoch1.pt", "update20.pt", "update30.pt"}
    saved.forget_after(20)
    assert [entry.update for entry in saved.entries()] == [20] and saved.weights() == {}


@pytest.mark.parametrize("content", [None, b"", CONTENT, CONTENT[:5000] + b"!" + CONTENT[5001:] + bytes([30])])
def test_a_damaged_state_is_renamed_or_a_missing_one_reported_and_the_one_before_is_used(saved, content):
    (saved.folder / "update30.pt").unlink()
    if content is not None:
        (saved.folder / "update30.pt").write_bytes(content)
    said = []
    assert saved.resume_point(said.append).update == 20
    assert (saved.folder / "update30.pt.damaged").exists() == (content is not None)
    assert ("update30.pt" if content is not None else "update30.pt is missing") in said[0]


@pytest.mark.parametrize("content", ['[{"file": "upd', "{}x", '[["state", 30]]', "null", '[{"file": "update30.pt"}]'])
def test_a_damaged_manifest_is_an_error_and_not_a_new_run(saved, content):
    (saved.folder / "manifest.json").write_text(content)
    with pytest.raises(LnReproError, match="is damaged; delete it to train afresh"):
        saved.resume_point(pytest.fail)


def test_a_crash_while_writing_leaves_the_ones_before(saved):
    def crash(path):
        path.write_bytes(CONTENT[:100])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        saved.save("state", 40, 2, crash)
    (saved.folder / "update99.pt").write_bytes(CONTENT)  # renamed, but not yet listed
    assert saved.resume_point(lambda _: None).update == 30
    saved.forget_after(30)
    assert not list(saved.folder.glob("*.part*"))
