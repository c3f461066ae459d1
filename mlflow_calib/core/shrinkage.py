"""Bin values between the mean of g and the mean of the labels, by how far the data show g to be wrong.

Beyond the paper: where g is misspecified and data plenty, histogram binning wins by far, elsewhere it loses by far. An
average of both, and of smooth corrections of g between them, takes the better side by itself, and leaves as many values
as there are bins.
"""

from __future__ import annotations

import numpy as np

from mlflow_calib.core.averaged_fits import averaged_differences
from mlflow_calib.core.scores import check_choice
from mlflow_calib.runtime import Floats

RULES = ("averaged", "constant")


def shrunk_values(
    means: Floats,
    counts: Floats,
    label_sums: Floats,
    effective_counts: Floats | None = None,
    rule: str = "averaged",
) -> Floats:
    r"""Values of the bins: the means of g, moved towards the mean labels, non-decreasing.

    Parameters
    ----------
    means : ndarray of float64, shape (B,)
        Mean of g in each bin, gbar_j.
    counts : ndarray, shape (B,)
        Rows with labels in each bin, or their summed weights; 0 leaves the mean where it is.
    label_sums : ndarray, shape (B,)
        Sum of the labels, or of weight times label, ybar_j = label_sums_j / counts_j.
    effective_counts : ndarray, shape (B,), optional
        Effective rows n_j of each bin, (sum of weights)^2 / (sum of squared weights); by default ``counts``.
    rule : {"averaged", "constant"}
        See the notes.

    Returns
    -------
    ndarray of float64, shape (B,)
        In [0, 1], non-decreasing. Neighbours that were pooled are equal, hence one bin: see :func:`joined`.

    Raises
    ------
    InvalidInputError
        For an unknown rule.

    Notes
    -----
    "averaged": gbar_j plus the average of six fits to ybar_j - gbar_j: nothing, polynomials of degree 0 to 3 in the
    log odds of gbar, and the difference itself, weighted by their estimated risks, see
    :func:`mlflow_calib.core.averaged_fits.averaged_differences`. Bins learn from one another along a smooth error of g,
    which counts where they are many, and from their own labels alone where its error is not smooth.

    "constant": empirical Bayes with one prior variance tau^2, that of :func:`prior_variance`, for all bins,

    .. math::
        v_j = \bar g_j + \frac{\tau^2}{\tau^2 + \bar g_j (1 - \bar g_j) / n_j} (\bar y_j - \bar g_j).

    Both are then clipped to [0, 1] and made non-decreasing by pooling neighbours that fall (their mean, weighted by
    ``counts``), which is the nearest non-decreasing sequence in weighted squares. docs/families.md has the figures of
    both.

    Examples
    --------
    Where labels agree with g nothing moves; with many rows they win:

    >>> import numpy as np
    >>> shrunk_values(np.array([0.2, 0.6]), np.array([10, 10]), np.array([2, 6])).round(3).tolist()
    [0.2, 0.6]
    >>> shrunk_values(np.array([0.2, 0.6]), np.array([9000, 9000]), np.array([3600, 6300])).round(3).tolist()
    [0.4, 0.7]
    """
    check_choice("rule", rule, RULES)
    shares, differences, variances = _bins(means, counts, label_sums, effective_counts)
    if rule == "averaged":
        rows = counts if effective_counts is None else effective_counts
        moved = averaged_differences(means, shares, np.where(counts > 0, rows, 0.0), differences)
    else:
        tau_squared = _tau_squared(shares, differences, variances)
        total = tau_squared + variances
        moved = differences * np.divide(tau_squared, total, out=np.zeros_like(total), where=total > 0)
    return pool_adjacent(np.clip(means + moved, 0.0, 1.0), shares)


def prior_variance(means: Floats, counts: Floats, label_sums: Floats, effective_counts: Floats | None = None) -> float:
    """Variance tau^2 of the true rates about the means of g: the method's own debiased error on the fitting data.

    tau^2 = max(0, sum_j w_j [(ybar_j - gbar_j)^2 - gbar_j (1 - gbar_j) / n_j]), w_j the bin's share of ``counts``.
    """
    return _tau_squared(*_bins(means, counts, label_sums, effective_counts))


def pool_adjacent(values: Floats, weights: Floats) -> Floats:
    """Nearest non-decreasing sequence in weighted squares, by pooling adjacent violators. Shapes (B,), (B,) -> (B,).

    Bins of weight 0 count for next to nothing.

    Examples
    --------
    >>> import numpy as np
    >>> pool_adjacent(np.array([0.1, 0.5, 0.3, 0.9]), np.array([1.0, 1.0, 3.0, 1.0])).round(3).tolist()
    [0.1, 0.35, 0.35, 0.9]
    """
    blocks: list[tuple[float, float, int]] = []
    floor = max(float(weights.sum()), 1.0) * 1e-12
    for value, weight in zip(values.tolist(), np.maximum(weights, floor).tolist(), strict=True):
        mean, mass, size = value, weight, 1
        while blocks and blocks[-1][0] > mean:
            left, left_mass, left_size = blocks.pop()
            mean = (left * left_mass + mean * mass) / (left_mass + mass)
            mass, size = mass + left_mass, size + left_size
        blocks.append((mean, mass, size))
    return np.repeat([mean for mean, _, _ in blocks], [size for _, _, size in blocks])


def joined(edges: Floats, values: Floats, counts: Floats) -> tuple[Floats, Floats, Floats]:
    """Edges, values and counts with neighbours of equal value as one bin. Shapes (B - 1,), (B,), (B,).

    An output is one bin by the definition of the calibration error; kept apart, pooled bins would each be charged with
    their own deviation from the value that is right for all of them together.

    Examples
    --------
    >>> import numpy as np
    >>> edges, values, counts = joined(np.array([1.0, 2.0]), np.array([0.1, 0.4, 0.4]), np.array([5, 6, 7]))
    >>> edges.tolist(), values.tolist(), counts.tolist()
    ([1.0], [0.1, 0.4], [5, 13])
    """
    apart = np.diff(values) != 0
    starts = np.flatnonzero(np.concatenate([[True], apart]))
    return edges[apart], values[starts], np.add.reduceat(counts, starts)


def _bins(
    means: Floats, counts: Floats, label_sums: Floats, effective_counts: Floats | None
) -> tuple[Floats, Floats, Floats]:
    """Share, label mean less mean of g, and variance of the label mean under g, of each bin; 0 where no rows are."""
    held = counts > 0
    rows = counts if effective_counts is None else effective_counts
    differences = np.where(held, label_sums / np.where(held, counts, 1) - means, 0.0)
    variances = np.where(held, means * (1 - means) / np.where(held, rows, 1), 0.0)
    return counts / max(counts.sum(), np.finfo(float).tiny), differences, variances


def _tau_squared(shares: Floats, differences: Floats, variances: Floats) -> float:
    return max(0.0, float(shares @ (differences**2 - variances)))
