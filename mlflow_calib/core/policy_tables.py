"""The requirements a policy can make: of each its settings in order, and of each setting the kind and the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.comparison_check import COMPARISONS
from mlflow_calib.core.estimate_check import REDUCTIONS
from mlflow_calib.core.records import (
    CONFIDENCE_LEVEL,
    FRACTION,
    LIST,
    NOT_NEGATIVE,
    POSITIVE_COUNT,
    SCALAR,
    TEXT,
    TRUTH,
    Kind,
    is_number,
    one_of,
)

CALIBRATION_ERROR = "calibration_error_upper_bound"
WORST_CLASS = "worst_class_calibration_error_upper_bound"
SLICES = "slice_calibration_error_upper_bound"
MSE_INCREASE = "mse_increase_over_champion"
ROWS_PER_BIN = "rows_per_bin"
N_EVALUATION = "n_evaluation"
EVIDENCE_AGE = "evidence_age_days"
BOUNDS = ("asymptotic", "finite-sample")
#: More slices than this are no plan: each takes its share of the confidence.
MOST_SLICES = 200

_MARGIN = Kind("a number from -1 to 1", lambda value: is_number(value) and -1 <= value <= 1)
_LOSS_MARGIN = Kind("a number from -100 to 100", lambda value: is_number(value) and -100 <= value <= 100)
_BY_GROUP = Kind("true, false, or null (true when the evidence has groups)", TRUTH.or_null().test)
_REDUCTION = Kind(
    f"{one_of(*REDUCTIONS).words} or null (that of the evidence)",
    one_of(*REDUCTIONS).or_null().test,
)
_COLUMNS = Kind(
    "a list of column names, each once",
    lambda value: LIST.test(value) and all(map(TEXT.test, value)) and len(set(value)) == len(value),
)
_SLICES = Kind(
    'a list of tables such as {region = "EU"}',
    lambda value: LIST.test(value) and all(map(_is_slice, value)),
)


def _is_slice(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and len(value) > 0
        and all(TEXT.test(name) and SCALAR.or_null().test(one) for name, one in value.items())
    )


Settings = Mapping[str, tuple[Kind, Any]]
_LEVEL = (CONFIDENCE_LEVEL, 0.95)
_ERROR: Settings = {
    "limit": (FRACTION, 0.05),
    "confidence_level": _LEVEL,
    "squared": (TRUTH, False),
    "by_group": (_BY_GROUP, None),
    "reduction": (_REDUCTION, None),
    "bound": (one_of(*BOUNDS), "asymptotic"),
}
#: Kind and default of the margin of each comparison.
_MARGINS = {"mse": (_MARGIN, 0.002), "log_loss": (_LOSS_MARGIN, 0.01), "calibration_error": (_MARGIN, 0.01)}
_COMPARED = {
    name: {"limit": _MARGINS[name.partition("_increase_over_")[0]], "confidence_level": _LEVEL} for name in COMPARISONS
}

#: Every requirement, in the order of the verdict.
SETTINGS: Mapping[str, Settings] = {
    CALIBRATION_ERROR: _ERROR,
    WORST_CLASS: _ERROR,
    SLICES: {**_ERROR, "columns": (_COLUMNS, ()), "slices": (_SLICES, ())},
    MSE_INCREASE: _COMPARED[MSE_INCREASE],
    **{name: settings for name, settings in _COMPARED.items() if name != MSE_INCREASE},
    ROWS_PER_BIN: {"limit": (POSITIVE_COUNT, 20)},
    N_EVALUATION: {"limit": (POSITIVE_COUNT, 1000)},
    EVIDENCE_AGE: {"limit": (NOT_NEGATIVE, 7.0)},
}
#: Those that hold where a policy does not name them; the others are off until they are named.
ON_BY_DEFAULT = (CALIBRATION_ERROR, MSE_INCREASE, N_EVALUATION, EVIDENCE_AGE)
#: Bounds on a calibration error, the whole's first.
ERROR_BOUNDS = (CALIBRATION_ERROR, WORST_CLASS, SLICES)
