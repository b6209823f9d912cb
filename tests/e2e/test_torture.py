"""Twenty processes of a sweep are killed at random, five of each kind; nothing is lost, doubled or changed."""

import pytest

from tests.e2e.torture import torture


@pytest.mark.slow
def test_twenty_kills_change_nothing(command):
    toll = torture(command("sweep"), command("quiet"), seed=1, kills=20)
    print(toll)
    assert set(toll.kills.values()) == {5} and len(toll.kills) == 4
    assert toll.runs >= 4 and not toll.different and not toll.doubled, toll
