"""Which rows recalibrate and which evaluate: by the hash of their keys, by time, or as two sets that were given.

A row's place depends on its own key and the seed alone, so a retry, another order of the rows and another machine
give the same partitions. Evaluation data is disjoint from recalibration data always; `count_overlap` counts.
How a split is asked for stands in `mlflow_calib.core.split_plan`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.periods import Period, parse_period
from mlflow_calib.core.split_plan import SplitPlan, fraction_problem, read_split, resolve_periods, seed_problem
from mlflow_calib.errors import InvalidInputError, raise_problems

__all__ = [
    "Period",
    "SplitPlan",
    "count_overlap",
    "hash_split",
    "parse_period",
    "read_split",
    "resolve_periods",
    "splitmix64",
    "thirds",
]

KeyHashes = npt.NDArray[np.uint64]


def splitmix64(values: KeyHashes) -> KeyHashes:
    """First output of SplitMix64 at each state: a mixing of all 64 bits (Steele, Lea and Flood 2014).

    Examples
    --------
    >>> hex(splitmix64(np.array([0], dtype=np.uint64))[0])
    '0xe220a8397b1dcdaf'
    """
    mixed = values + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)


def hash_split(key_hash: KeyHashes, evaluation_fraction: float = 0.5, seed: int = 0) -> npt.NDArray[np.bool_]:
    """Which rows are evaluation data: those whose mixed hash, as a number in [0, 1), is under the fraction.

    The mixed hash is SplitMix64 of (key_hash xor seed), its upper 53 bits divided by 2**53. Shapes (n,) -> (n,).

    Raises
    ------
    InvalidInputError
        The fraction does not lie between 0 and 1, or the seed is no whole number in [0, 2**64).
    """
    problems = [fraction_problem(evaluation_fraction), seed_problem(seed)]
    if any(problems):
        raise_problems([problem for problem in problems if problem])
    mixed = splitmix64(np.asarray(key_hash, dtype=np.uint64) ^ np.uint64(seed))
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53 < evaluation_fraction, dtype=np.bool_)


def thirds(n_sorted: int) -> npt.NDArray[np.int8]:
    """Parts 1, 2, 3 of n rows in the order of their key hashes; sizes differ by at most one, the first are larger.

    Examples
    --------
    >>> thirds(5).tolist()
    [1, 1, 2, 2, 3]
    """
    sizes = [n_sorted // 3 + (part < n_sorted % 3) for part in range(3)]
    return np.repeat(np.array([1, 2, 3], dtype=np.int8), sizes)


def count_overlap(sorted_a: KeyHashes, sorted_b: KeyHashes) -> int:
    """How many rows of ``sorted_a`` have their key in ``sorted_b``, by a merge of the two.

    Raises
    ------
    InvalidInputError
        One of them is not sorted.
    """
    for name, hashes in (("sorted_a", sorted_a), ("sorted_b", sorted_b)):
        if np.any(hashes[1:] < hashes[:-1]):
            raise InvalidInputError(f"{name} must be sorted key hashes; sort them first")
    if not len(sorted_b):
        return 0
    place = np.minimum(np.searchsorted(sorted_b, sorted_a), len(sorted_b) - 1)
    return int(np.count_nonzero(sorted_b[place] == sorted_a))
