"""Fifty processes of a sweep are killed at random; nothing is lost, doubled or changed."""

import pytest

from tests.e2e.torture import torture


@pytest.mark.slow
def test_fifty_kills_change_nothing(command):
    toll = torture(command("sweep"), command("quiet"), seed=1, kills=50)
    print(toll)
    assert toll.kills.total() == 50 and len(toll.kills) >= 3
    assert toll.runs >= 4 and not toll.different and not toll.doubled, toll
