"""A fitted scaling function: its family, its parameters, how the fit went."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np
from scipy.special import expit

from mlflow_calib.core.scaling_families import FAMILIES, log_odds, transform
from mlflow_calib.runtime import Floats


@dataclass(frozen=True)
class ScalingFunction:
    """A fitted scaling function, callable on scores; it never falls as the score rises.

    Attributes
    ----------
    family : str
        With x = log(z / (1 - z)): "platt" sigma(a x + b), a >= 0; "quadratic" sigma(a x^2 + b x + c), x held within
        [lower, upper], where it does not fall; "beta" sigma(a ln z - b ln(1 - z) + c), a, b >= 0; "temperature"
        sigma(a x), a >= 0 the inverse temperature; "identity" z.
    a, b : float
        Parameters of the formula; 1 and 0 where it has none.
    boundary : float or None
        Scores are held within [boundary, 1 - boundary] before the log odds; None where scores are log odds already.
    converged : bool
        Whether the loss has a minimum and Newton's method came to it.
    n_iterations : int
        Newton steps on the rows.
    constraint_active : bool
        Whether g would fall somewhere if it were not held: a slope is 0.
    loss : float
        Mean of the loss that was minimised over the rows of the fit; log loss in nats; the smaller the better.
    c : float
        Third parameter of "quadratic" and "beta".
    lower, upper : float or None
        Range of x in the fitting data, beyond which "quadratic" is constant.
    loss_name : {"log", "squared"}
    targets : {"labels", "platt"}
        What was fitted to: the labels, or the smoothed targets of Platt 1999.
    candidates : tuple of dict
        Every rival that "auto" compared: ``family``, ``boundary``, ``squared_loss`` (cross-fitted),
        ``standard_error`` of its difference from the first, ``chosen``.
    """

    family: str
    a: float
    b: float
    boundary: float | None
    converged: bool
    n_iterations: int
    constraint_active: bool
    loss: float
    c: float = 0.0
    lower: float | None = None
    upper: float | None = None
    loss_name: str = "log"
    targets: str = "labels"
    candidates: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "candidates", tuple(self.candidates))

    @property
    def parameters(self) -> dict[str, float]:
        """Parameters of the family's formula by name."""
        names = FAMILIES[self.family].names if self.family in FAMILIES else ()
        return {name: getattr(self, name) for name in names}

    def __call__(self, scores: Floats) -> Floats:
        """Scaled probabilities g(z); shapes (n,) -> (n,)."""
        if self.family == "identity" and self.boundary is not None:
            return np.clip(scores, 0.0, 1.0)
        x = log_odds(scores, self.boundary)
        if self.lower is None or self.upper is None:
            return np.asarray(expit(transform(self.family, x, self.a, self.b, self.c)))
        x = np.clip(x, self.lower, self.upper)
        return np.asarray(expit(transform(self.family, x, self.a, self.b, self.c, self.lower, self.upper)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values under the names of the attributes; those that stand at their defaults are left out."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = {field.name: field.default for field in fields(self) if field.default is not MISSING}
        kept = {name: value for name, value in plain.items() if name not in defaults or value != defaults[name]}
        return {**kept, **({"candidates": [dict(one) for one in self.candidates]} if self.candidates else {})}
