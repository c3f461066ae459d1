"""What the labels say about the error of g, bin by bin: six fits, averaged by their estimated risks."""

from __future__ import annotations

import numpy as np
from scipy.special import logit

from mlflow_calib.runtime import Floats

#: Polynomials of the log odds of g up to this degree.
HIGHEST_DEGREE = 3
#: Means of g of 0 and 1, which have no log odds, count as this and as 1 less this.
LEAST_RATE = 1e-9
#: What a further power of the log odds adds to those before it must exceed this share of it.
LEAST_NEW = 1e-6


def averaged_differences(means: Floats, shares: Floats, rows: Floats, differences: Floats) -> Floats:
    r"""Differences of the true rates from the means of g, by those of the mean labels. All arrays of shape (B,).

    Parameters
    ----------
    means : ndarray of float64
        Mean of g in each bin, gbar_j, in [0, 1].
    shares : ndarray of float64
        What a squared error in the bin weighs, w_j: its share of all rows.
    rows : ndarray of float64
        Effective rows with labels, n_j; where there are none the answer is 0.
    differences : ndarray of float64
        Mean label less mean of g, d_j.

    Returns
    -------
    ndarray of float64

    Notes
    -----
    Where g is right d_j varies about 0 with variance v_j = V_j / n_j, V_j = gbar_j (1 - gbar_j). Six fits to d:

    - 0: g is right;
    - V_j p(x_j) with x_j = logit(gbar_j) and p a polynomial of degree 0, 1, 2, 3, by least squares in d_j^2 / v_j: one
      step of Fisher scoring from g towards the logistic regression of the labels on p(x) with offset x;
    - d: the mean labels are right.

    Each is linear in d, hence H d for some matrix H, and its squared error has the unbiased estimate

    .. math::
        r = \sum_j w_j \left[ ((H d)_j - d_j)^2 + 2 H_{jj} v_j - v_j \right].

    The answer is the average of the six with weights in proportion to exp(-r / 2u), u = sum_j (w_j v_j)^2 /
    sum_j w_j v_j. Where all w_j v_j are equal, u is one of them and the weights are those of Akaike.

    References
    ----------
    Mallows, "Some comments on C_p", Technometrics 1973 (the risk). Burnham and Anderson, "Model selection and
    multimodel inference", 2002, chapter 2 (the weights). Leung and Barron, "Information theory and mixing
    least-squares regressions", IEEE Transactions on Information Theory 2006 (bounds of what such averages lose to the
    best of their fits, for equal noise and flatter weights; docs/families.md has what was measured of these).

    Examples
    --------
    Labels within their noise of g leave little of their difference; many rows leave it all:

    >>> import numpy as np
    >>> g, w, d = np.array([0.2, 0.5, 0.8]), np.full(3, 1 / 3), np.array([0.1, -0.1, 0.1])
    >>> averaged_differences(g, w, np.full(3, 4.0), d).round(3).tolist()
    [0.018, 0.005, 0.018]
    >>> averaged_differences(g, w, np.full(3, 4000.0), d).round(3).tolist()
    [0.1, -0.1, 0.1]
    """
    held = rows > 0
    n = np.where(held, rows, 1.0)
    rates = np.clip(means, LEAST_RATE, 1 - LEAST_RATE)
    spreads = np.sqrt(rates * (1 - rates))
    noise = np.where(held, shares * spreads**2 / n, 0.0)
    if not noise.any():
        return np.zeros_like(means)
    basis = _polynomials(logit(rates), np.where(held, spreads * np.sqrt(n), 0.0))
    parts = basis * (basis @ (differences * np.sqrt(n) / spreads))[:, None] * spreads / np.sqrt(n)
    nothing = np.zeros((1, len(means)))
    fits = np.concatenate([nothing, np.cumsum(parts, axis=0), differences[None]])
    leverages = np.concatenate([nothing, np.cumsum(basis**2, axis=0), nothing + 1])
    risks = (fits - differences) ** 2 @ shares + 2 * leverages @ noise
    unit = noise @ noise / noise.sum()
    weights = np.exp((risks.min() - risks) / (2 * unit))
    return np.asarray(np.where(held, weights @ fits / weights.sum(), 0.0))


def _polynomials(x: Floats, scales: Floats) -> Floats:
    """Polynomials of degree 0, 1, ... in x, times ``scales``, orthonormal, shape (D, B).

    Each is x times the last one less its projections, taken off twice: powers of x themselves are close to dependent.
    Fewer than ``HIGHEST_DEGREE`` + 1 where x has fewer places.
    """
    basis = (scales / np.linalg.norm(scales))[None]
    while len(basis) <= HIGHEST_DEGREE:
        column = x * basis[-1]
        size = np.linalg.norm(column)
        for _ in range(2):
            column = column - (basis @ column) @ basis
        norm = np.linalg.norm(column)
        if norm <= LEAST_NEW * size:
            break
        basis = np.concatenate([basis, column[None] / norm])
    return np.asarray(basis)
