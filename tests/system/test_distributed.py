"""What torchrun's variables say."""

from ln_repro.system.distributed import Rank, this_rank


def test_without_torchrun_a_process_is_the_only_one() -> None:
    assert this_rank({}) == Rank(0, 1, 0)
    assert this_rank({"RANK": "3", "WORLD_SIZE": "8"}).leads  # some other launcher's


def test_under_torchrun_the_first_one_leads() -> None:
    variables = {"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "16"}
    assert this_rank({**variables, "RANK": "0", "LOCAL_RANK": "0"}).leads
    other = this_rank({**variables, "RANK": "9", "LOCAL_RANK": "1"})
    assert other == Rank(9, 16, 1) and not other.leads
