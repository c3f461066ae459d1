import pytest
from .test_parallel import test_of_competing_promotions_exactly_one_wins as a, test_unguarded_writes_go_on_meanwhile as b
@pytest.mark.parametrize("n", range(12))
def test_a(served, name, n): a(served, name)
@pytest.mark.parametrize("n", range(12))
def test_b(served, name, n): b(served, name)
