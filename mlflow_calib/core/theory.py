"""What the theorems ask of bins, looked up on data: how well balanced a binning scheme is.

Notation of Kumar et al. 2019, section 4: a scheme of B bins is alpha-well-balanced where every bin I_j has
1 / (alpha B) <= P(z in I_j) <= alpha / B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mlflow_calib.core.binning import BinningScheme, check_n_bins
from mlflow_calib.core.columns import numbers
from mlflow_calib.core.levels import check_confidence_level
from mlflow_calib.errors import InvalidInputError, raise_problems

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class WellBalancedness:
    """How evenly the bins of a scheme share the rows.

    Attributes
    ----------
    alpha : float
        The smallest alpha for which the scheme is alpha-well-balanced on these rows: 1 where all bins hold equally
        many, infinite where one holds none. The theorem on scaling-binning is for alpha = 2.
    n_bins, n : int
        Bins there are, and rows they were counted on.
    lightest, heaviest : float
        Share of the rows in the lightest and in the heaviest bin.
    """

    alpha: float
    n_bins: int
    n: int
    lightest: float
    heaviest: float

    @property
    def mse_increase_of_binning(self) -> float:
        """What binning a scaling function into these bins adds to its MSE at most: alpha / (2 B)."""
        return self.heaviest / 2

    @property
    def mse_increase_of_fitted_bins(self) -> float:
        """The same bound where the outputs are means of g over rows of T3 instead of exact ones: 2 alpha / B."""
        return 2 * self.heaviest


def well_balancedness(scheme: BinningScheme, scores: npt.ArrayLike) -> WellBalancedness:
    """How well balanced a binning scheme is on given scores.

    Good for: seeing whether the condition of the paper's theorem holds on the rows a calibrator will meet, which need
    not look like the rows its bins were made from. Equal-width bins of skewed scores have an alpha that grows with B.

    Parameters
    ----------
    scheme : BinningScheme
    scores : array_like, shape (n,)
        In the space of the scheme's edges; other rows than those the scheme was made from, as these are balanced by
        construction.

    Returns
    -------
    WellBalancedness

    Raises
    ------
    InvalidInputError
        For scores that are not at least one finite number.

    References
    ----------
    Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019, section 4: definition of well-balanced
    binning, and the proposition on the mean squared error for the two bounds.

    Examples
    --------
    >>> from mlflow_calib.core.binning import equal_width, uniform_mass
    >>> scores = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.9]
    >>> well_balancedness(uniform_mass(scores, 2), scores).alpha
    1.0
    >>> well_balancedness(equal_width(scores, 2), scores).alpha  # 1 of 8 rows in one of 2 bins
    4.0
    """
    if not isinstance(scheme, BinningScheme):
        raise InvalidInputError(f"scheme must be a BinningScheme, got {type(scheme).__name__}")
    problems: list[str] = []
    rows = numbers(scores, "scores", problems)
    if rows is None:
        raise_problems(problems)
    if rows.ndim != 1 or not rows.size or not np.isfinite(rows).all():
        raise InvalidInputError(f"scores must be at least one finite number, shape (n,), got shape {rows.shape}")
    masses = np.bincount(scheme.index(rows), minlength=scheme.n_bins) / len(rows)
    alpha = float(balance_of(masses))
    return WellBalancedness(alpha, scheme.n_bins, len(rows), float(masses.min()), float(masses.max()))


def balance_of(masses: Floats) -> Floats:
    """Smallest alpha with 1 / (alpha B) <= mass <= alpha / B for all bins, shapes (..., B) -> (...).

    >>> float(balance_of(np.array([0.5, 0.25, 0.25]))), float(balance_of(np.array([1.0, 0.0])))
    (1.5, inf)
    """
    relative = np.asarray(masses, dtype=np.float64) * np.shape(masses)[-1]
    with np.errstate(divide="ignore"):
        lightest = 1 / relative.min(axis=-1)
    return np.asarray(np.maximum(relative.max(axis=-1), lightest))


def rows_for_balance(n_bins: int, confidence_level: float = 0.95) -> int:
    """Rows of T2 from which uniform-mass bins of continuous scores are 2-well-balanced with this probability.

    n = 4 B ln(B / delta), delta = 1 - confidence_level: the paper's lemma, whose constant it leaves open. That 4 is
    enough for 5 to 100 bins at 90 and 95 % is shown by simulation in the tests.

    References
    ----------
    Kumar, Liang and Ma, "Verified Uncertainty Calibration", NeurIPS 2019, section 4, lemma on
    uniform-mass binning.

    Examples
    --------
    >>> rows_for_balance(10), rows_for_balance(100)
    (212, 3041)
    """
    check_n_bins(n_bins)
    check_confidence_level(confidence_level)
    return math.ceil(4 * n_bins * math.log(n_bins / (1 - confidence_level)))
