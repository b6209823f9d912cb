"""`ln-repro reproduce`: a record is run again, completely or for its first updates, with the same results."""

import json

import pytest

from ln_repro.records.archive import CHECKSUMS, EVENTS, archive_folder, pack, read_kept, unpacked


@pytest.mark.slow
def test_a_record_is_reproduced(finished):
    run = finished
    kept = run.runs.parent / "records"
    assert run.call_here("collect", "--records", str(kept))[0] == 0
    (record,) = read_kept(kept).records
    where = [word for word in run.arguments if word.startswith(("data.train", "data.valid", "data.test"))]
    words = ("reproduce", record.id, "--records", str(kept), *where)

    status, out, error = run.call(*words)
    assert status == 0, error
    assert f"{record.id}: equal bit for bit" in out and "test BLEU, epoch 4" in out
    assert all(len(line) <= 80 for line in out.splitlines() if line.startswith("|"))
    assert [path.parent.name for path in run.runs.glob("reproduced/*/record.json")] == [run.folder.name]

    status, out, error = run.call(*words, "train.max_update=20")
    assert status == 0, error
    assert f"only what both have is compared: 20 of {record.updates} updates" in out
    assert "equal bit for bit" in out and "loss, update 20" in out and "epoch 1" not in out

    archive = archive_folder(kept)  # a record that this code does not reproduce
    files = dict(unpacked(archive / record.archive))
    events = [json.loads(line) for line in files[f"{record.id}{EVENTS}"].splitlines()]
    for event in events:
        if event["kind"] == "train":
            event["loss"] *= 2
    files[f"{record.id}{EVENTS}"] = "".join(json.dumps(event) + "\n" for event in events).encode()
    (archive / record.archive).unlink()
    (archive / CHECKSUMS).unlink()
    assert pack(archive, "toy", files) == record.archive
    status, out, error = run.call_here(*words, "train.max_update=20")
    assert status == 1 and f"{record.id}: different" in out and "already finished" in error
