"""The families of scaling functions: what each makes of the log odds x of a score.

Every family is t = theta_1 u_1(x) + ... + b with features u that rise with x and theta >= 0, so none can fall.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logit

from mlflow_calib.runtime import Floats

#: e to this is finite, and log(1 + e^x) equals x to the last place from 37 on.
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True)
class Family:
    """A family of scaling functions.

    Attributes
    ----------
    names : tuple of str
        Its parameters as in its formula.
    features : callable
        Features of log odds x (C, n) on the range lower, upper (C, 1) each.
    parameters : callable
        Parameters of a fitted function from the coefficients (slopes, then intercept), lower and upper.
    intercept : bool
        Whether b is free.
    """

    names: tuple[str, ...]
    features: Callable[[Floats, Floats, Floats], list[Floats]]
    parameters: Callable[[Floats, float, float], dict[str, float]]
    intercept: bool = True


def log_odds(scores: Floats, boundary: float | None) -> Floats:
    """Log odds of scores held within [boundary, 1 - boundary]; with None the scores are log odds already."""
    if boundary is None:
        return scores
    held = np.asarray(np.clip(scores, boundary, 1 - boundary))
    return np.asarray(logit(held, out=held))


def _softplus(x: Floats) -> Floats:
    """log(1 + e^x) = -ln(1 - z), by functions that each rise with x in their rounding too."""
    return np.asarray(np.where(x < _LARGEST_EXPONENT, np.log1p(np.exp(np.minimum(x, _LARGEST_EXPONENT))), x))


def _linear(x: Floats, lower: Floats, upper: Floats) -> list[Floats]:  # noqa: ARG001 - one signature for all
    return [x]


def _logs(x: Floats, lower: Floats, upper: Floats) -> list[Floats]:  # noqa: ARG001
    """Logarithms ln z and -ln(1 - z)."""
    return [-_softplus(-x), _softplus(x)]


def _curved(x: Floats, lower: Floats, upper: Floats) -> list[Floats]:
    """The parabolas whose slope falls from 1 to 0, and rises from 0 to 1, over the range."""
    width = np.where(upper > lower, upper - lower, 1.0)
    return [-((upper - x) ** 2) / (2 * width), (x - lower) ** 2 / (2 * width)]


def _plain(coefficients: Floats, lower: float, upper: float) -> dict[str, float]:  # noqa: ARG001
    return dict(zip(("a", "b", "c"), coefficients.tolist(), strict=False))


def _parabola(coefficients: Floats, lower: float, upper: float) -> dict[str, float]:
    at_lower, at_upper, intercept = coefficients.tolist()
    width = upper - lower if upper > lower else 1.0
    a = (at_upper - at_lower) / (2 * width)
    b = (at_lower * upper - at_upper * lower) / width
    c = intercept + (at_upper * lower**2 - at_lower * upper**2) / (2 * width)
    return {"a": a, "b": b, "c": c, "lower": lower, "upper": upper}


FAMILIES = {
    "platt": Family(("a", "b"), _linear, _plain),
    "quadratic": Family(("a", "b", "c"), _curved, _parabola),
    "beta": Family(("a", "b", "c"), _logs, _plain),
    "temperature": Family(("a",), _linear, _plain, intercept=False),
}


def _rising_parabola(x: Floats, a: float, b: float, c: float, lower: float, upper: float) -> Floats:
    """The formula a x^2 + b x + c on [lower, upper], as a sum of terms that each rise with x in their rounding too."""
    width = upper - lower if upper > lower else 1.0
    at_lower, at_upper = max(2 * a * lower + b, 0.0), max(2 * a * upper + b, 0.0)
    start = (a * lower + b) * lower + c + at_lower * width / 2
    return start - (at_lower / (2 * width)) * (upper - x) ** 2 + (at_upper / (2 * width)) * (x - lower) ** 2


def transform(
    family: str, x: Floats, a: float, b: float, c: float, lower: float = -np.inf, upper: float = np.inf
) -> Floats:
    """What the family's formula sigma(t) takes as t, at log odds x; of a quadratic within [lower, upper]."""
    if family == "quadratic":
        return _rising_parabola(x, a, b, c, lower, upper)
    if family == "beta":
        return np.asarray(b * _softplus(x) - a * _softplus(-x) + c)
    return x if family == "identity" else a * x + b
