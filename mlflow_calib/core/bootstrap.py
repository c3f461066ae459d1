"""Bootstrap of the debiased square from cell counts: its cost does not depend on the number of rows.

A row is one of 2 B cells, (bin, outcome). Drawing n rows again is one multinomial draw of the cells. What is taken from
the draws is their standard deviation; percentiles of a plug-in estimate would be 2.6 times too high at B = 100 and
n = 2,000, as every draw adds the noise of estimation once more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlflow_calib.core.bound_terms import BoundTerms, row_terms_of
from mlflow_calib.core.error_statistics import ErrorStatistics, Floats, debiased_squared
from mlflow_calib.core.squares import debiased_squared_of
from mlflow_calib.errors import InvalidInputError

#: Draws of the bootstrap.
DRAWS = 1_000


def bootstrap_squares(s: ErrorStatistics, n_draws: int = DRAWS, seed: int = 0) -> Floats:
    """Debiased squares of ``n_draws`` resampled data sets, shape (n_draws,).

    Examples
    --------
    >>> s = ErrorStatistics([500, 500], [150, 350], [0.29, 0.71])
    >>> squares = bootstrap_squares(s)
    >>> len(squares), bool(0 < squares.std() < 0.001)
    (1000, True)
    """
    if s.weights is not None:
        raise InvalidInputError("the bootstrap from cell counts needs rows of equal weight; use method='asymptotic'")
    cells = np.concatenate([s.positives, s.counts - s.positives])
    drawn = np.random.default_rng(seed).multinomial(s.n, cells / max(s.n, 1), size=n_draws)
    positives = drawn[:, : s.n_bins]
    counts = positives + drawn[:, s.n_bins :]
    return debiased_squared_of(counts, positives, s.outputs)


def bootstrap_deviation(
    statistics: Sequence[ErrorStatistics], dependence: float = 1.0, n_draws: int = DRAWS, seed: int = 0
) -> float:
    """Bootstrap standard deviation of the debiased square, or of its mean over classes.

    Classes are drawn one by one, and the deviation of their mean is raised by ``dependence``: the variance of the mean
    over what it were if the classes were independent, K at most.
    """
    variances = [float(bootstrap_squares(s, n_draws, seed + k).var()) for k, s in enumerate(statistics)]
    return float(np.sqrt(sum(variances) * dependence)) / len(variances)


def variance_ratio(statistics: Sequence[ErrorStatistics], shared: BoundTerms) -> float:
    """Variance of the mean square of K classes, by the closed form, over what it were if they were independent.

    Between 1, also of one class, and K, where the classes are as one. ``shared`` are the terms of all classes together.
    """
    squares = [max(debiased_squared(s), 0.0) for s in statistics]
    own = [float(one.v0) + float(one.c) * t for one, t in zip(map(row_terms_of, statistics), squares, strict=True)]
    variance = float(shared.v0) + float(shared.c) * float(np.mean(squares))
    most = float(len(statistics))
    return min(max(variance * most**2 / sum(own) if sum(own) > 0 else most, 1.0), most)
