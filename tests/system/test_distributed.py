"""The rank of a process from torchrun's variables."""

from ln_repro.system.distributed import Rank, this_rank


def test_only_torchruns_variables_count():
    assert this_rank({"RANK": "3", "WORLD_SIZE": "8"}) == Rank(0, 1, 0)  # some other launcher's
    rank = this_rank({"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "16", "RANK": "9", "LOCAL_RANK": "1"})
    assert rank == Rank(9, 16, 1) and not rank.leads and this_rank({}).leads
