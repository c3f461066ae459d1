"""Families and shrunk bin values on real predictions: ``python -m tests.bench.families`` writes docs/families.md.

For every set, number of rows and number of bins: fit on random rows, measure on all others, 20 times. The error is the
debiased squared calibration error over the bins, averaged over the draws; the ratio is to the better of
Platt scaling-binning and histogram binning in that setting, errors below 2e-5 counting as 2e-5.

The rules were chosen on draws 1000 to 1039; the document is of draws from 5000 on. ``--first-draw 0`` are others, and
``--other`` prints the same of other problems, without writing.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mlflow_calib as mc
from mlflow_calib.core.scaling_fit import fit_family
from mlflow_calib.core.scaling_rows import BOUNDARIES, TeachingRows
from mlflow_calib.core.shrinkage import shrunk_values

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / os.environ.get("MLFLOW_CALIB_DATA", "../shared/data")
FLOOR = 2e-5
#: Settings with fewer unseen rows a bin are shown, and left out of the averages.
ROWS_PER_BIN = 10
METHODS: dict[str, dict[str, Any]] = {
    "platt": {"method": "scaling-binning", "scaling": "platt"},
    "histogram": {"method": "histogram-binning"},
    "platt shrunk": {"method": "scaling-binning-shrunk", "scaling": "platt"},
    "auto": {"method": "scaling-binning", "scaling": "auto"},
    "auto shrunk": {"method": "scaling-binning-shrunk", "scaling": "auto"},
}
CONSTANT = "auto shrunk, constant prior"
#: The rules were chosen on draws below this.
FIRST_DRAW = 5000

Rows = tuple[np.ndarray, np.ndarray]


def softmax(name: str, n_classes: int) -> Rows:
    frame = pd.read_parquet(DATA / name)
    return frame[[f"p_{k}" for k in range(n_classes)]].to_numpy(np.float64), frame["label"].to_numpy()


def flares(column: str) -> Rows:
    """Forecasts of one method on the days that have one."""
    frame = pd.read_csv(DATA / "solar_flare_c1.csv")
    frame = frame[frame[column].between(0, 1)]
    return frame[column].to_numpy(float), frame["label"].to_numpy()


def real_sets() -> dict[str, Rows]:
    """Scores and outcomes of every binary problem by name."""
    sets: dict[str, Rows] = {}
    for name, file, n_classes in (("CIFAR-10", "cifar10_vgg", 10), ("CIFAR-100", "cifar100_wideresnet", 100)):
        p, label = softmax(f"{file}.parquet", n_classes)
        sets[f"{name} top-label"] = p.max(axis=1), (p.argmax(axis=1) == label).astype(int)
        if n_classes == 10:
            sets.update({f"{name} class {k}": (p[:, k].copy(), (label == k).astype(int)) for k in (0, 3, 8)})
    games = pd.read_csv(DATA / "nba_games.csv")
    sets["NBA games"] = games["p"].to_numpy(float), games["label"].to_numpy()
    llm = pd.read_parquet(DATA / "llm_stated_confidence.parquet")
    sets["LLM confidence"] = llm["p"].to_numpy(float), llm["label"].to_numpy()
    cells = pd.read_csv(DATA / "cell_segmentation.csv")
    sets["cell segmentation"] = cells["p_good"].to_numpy(float), (cells["label"] == "good").to_numpy().astype(int)
    sets["solar flares, NOAA"] = flares("NOAA")
    return sets


def other_sets() -> dict[str, Rows]:
    """Seven more classes of CIFAR-10, and every further flare forecast of 700 days and more than two values."""
    p, label = softmax("cifar10_vgg.parquet", 10)
    sets = {f"CIFAR-10 class {k}": (p[:, k].copy(), (label == k).astype(int)) for k in (1, 2, 4, 5, 6, 7, 9)}
    return sets | {f"solar flares, {name}": flares(name) for name in ("ASSA", "CLIM120", "DAFFS", "GDAFFS", "SIDC")}


def debiased(index: np.ndarray, values: np.ndarray, outcomes: np.ndarray) -> float:
    counts, positives = (np.bincount(index, column, len(values)) for column in (None, outcomes))
    held = counts > 1
    rates = positives[held] / counts[held]
    terms = (values[held] - rates) ** 2 - rates * (1 - rates) / (counts[held] - 1)
    return float(counts[held] @ terms / len(outcomes))


def figures(edges: np.ndarray, values: np.ndarray, scores: np.ndarray, outcomes: np.ndarray) -> list[float]:
    """Debiased squared error over bins, mean squared error, and the error over distinct outputs.

    Neighbouring bins of equal output are one bin. Labels' means also collide by chance in far bins (k/10 with ten rows
    a bin), which cancels errors of histogram binning; the last figure lets them.
    """
    apart = np.diff(values) != 0
    edges, values = edges[apart], values[np.concatenate([[True], apart])]
    index = np.searchsorted(edges, scores)
    distinct, place = np.unique(values, return_inverse=True)
    squared = float(np.mean((values[index] - outcomes) ** 2))
    return [debiased(index, values, outcomes), squared, debiased(place[index], distinct, outcomes)]


def halves(n: int, size: int, draw: int) -> Rows:
    """Rows to fit on, and all others."""
    order = np.random.default_rng([draw, size, n]).permutation(n)
    return order[:size], order[size:]


def with_constant_prior(edges: np.ndarray, means: np.ndarray, scores: np.ndarray, outcomes: np.ndarray) -> np.ndarray:
    """Values of bins with the means of g given, shrunk by one prior variance for all."""
    index = np.searchsorted(edges, scores)
    counts, sums = (np.bincount(index, column, len(means)) for column in (None, outcomes))
    return shrunk_values(means, counts.astype(float), sums, rule="constant")


def one_draw(scores: np.ndarray, outcomes: np.ndarray, size: int, n_bins: int, draw: int) -> tuple[Any, str]:
    """The figures of every method, shape (methods, 3), and the family that "auto" chose."""
    fit, unseen = halves(len(scores), size, draw)
    taught, judged = (scores[fit], outcomes[fit]), (scores[unseen], outcomes[unseen])
    maps = [
        mc.fit_calibrator(*taught, n_bins=n_bins, parts="shared", positive_class=1, seed=draw, **options).maps[0]
        for options in METHODS.values()
    ]
    auto = maps[[*METHODS].index("auto")]
    rows = [figures(one.edges, one.values, *judged) for one in maps]
    rows.append(figures(auto.edges, with_constant_prior(auto.edges, auto.values, *taught), *judged))
    return rows, str(auto.scaling.family)


def settings(sets: dict[str, Rows]) -> Iterator[tuple[str, int, int]]:
    for name, (scores, _) in sets.items():
        half = len(scores) // 2
        for size in (1000, 4000, half):
            if size <= half:
                yield from ((name, size, n_bins) for n_bins in (10, 100))


def measure(sets: dict[str, Rows], draws: range) -> pd.DataFrame:
    """A row a setting: mean errors, ratios, increase of MSE over the better rival, families chosen."""
    names, lines = [*METHODS, CONSTANT], []
    for name, size, n_bins in settings(sets):
        drawn = [one_draw(*sets[name], size, n_bins, draw) for draw in draws]
        errors, losses, distinct = np.mean([rows for rows, _ in drawn], axis=0).T
        better = int(np.argmin(errors[:2]))
        ratios, looser = (np.maximum(each, FLOOR) / max(each[:2].min(), FLOOR) for each in (errors, distinct))
        counted = len(sets[name][0]) - size >= ROWS_PER_BIN * n_bins
        lines.append(
            {"set": name, "n": size, "B": n_bins, "counted": counted}
            | {f"error {key}": error for key, error in zip(names, errors, strict=True)}
            | {f"ratio {key}": ratio for key, ratio in zip(names, ratios, strict=True)}
            | {f"distinct {key}": ratio for key, ratio in zip(names, looser, strict=True)}
            | {f"mse {key}": loss - losses[better] for key, loss in zip(names, losses, strict=True)}
            | {"families": ", ".join(f"{k} {v}" for k, v in Counter(family for _, family in drawn).most_common())}
        )
        print(name, size, n_bins, ratios.round(2), flush=True)
    return pd.DataFrame(lines)


def boundaries(n_halves: int = 8) -> list[str]:
    """Platt scaling, 10 bins: mean error on the other half with the fitted boundary, and with 1e-12."""
    lines = []
    for name, (scores, outcomes) in real_sets().items():
        errors: list[list[float]] = []
        chosen = Counter[str]()
        for draw in range(n_halves):
            fit, unseen = halves(len(scores), len(scores) // 2, draw)
            rows = TeachingRows.of(scores[fit], outcomes[fit].astype(float), None, "probability")
            fits = [fit_family("platt", rows, "log", "labels", c) for c in (None, float(BOUNDARIES[0]))]
            chosen[f"{fits[0].boundary:g}"] += 1
            pair = []
            for g in fits:
                # binning g(z) without another step 1 is scaling-binning with g
                binned = mc.fit_calibrator(g(scores[fit]), outcomes[fit], scaling="identity", n_bins=10, parts="shared")
                one = binned.maps[0]
                pair.append(figures(one.edges, one.values, g(scores[unseen]), outcomes[unseen])[0])
            errors.append(pair)
        ours, fixed = np.mean(errors, axis=0)
        kinds = ", ".join(key for key, _ in chosen.most_common())
        lines.append(f"| {name} | {ours * 1e4:.2f} | {fixed * 1e4:.2f} | {kinds} |")
        print(lines[-1], flush=True)
    return lines


def summary(table: pd.DataFrame) -> list[str]:
    counted = table[table["counted"]]
    lines = []
    for key in (*METHODS, CONSTANT):
        ratios = counted[f"ratio {key}"]
        mean, distinct = (np.exp(np.log(counted[f"{kind} {key}"]).mean()) for kind in ("ratio", "distinct"))
        worst = counted.loc[ratios.idxmax()]
        losses = counted[f"mse {key}"]
        where = f"{ratios.max():.2f}: {worst['set']}, n = {worst['n']:,}, B = {worst['B']}"
        over = int((losses > 5e-4).sum())
        lines.append(f"| {key} | {mean:.3f} | {distinct:.3f} | {where} | {losses.max():+.5f} | {over} |")
    return lines


def document(table: pd.DataFrame, boundary_lines: list[str], n_draws: int) -> str:
    head = (ROOT / "docs" / "families.md").read_text(encoding="utf-8").split(MARK)[0]
    counted = int(table["counted"].sum())
    lines = [
        head + MARK,
        "",
        f"## Over {counted} settings, {n_draws} draws each",
        "",
        "| method | geometric mean ratio | over distinct outputs | worst ratio | largest MSE increase | over .0005 |",
        "|---|---|---|---|---|---|",
        *summary(table),
        "",
        "## Every setting",
        "",
        "Mean debiased squared error on unseen rows, x 1e-4; ratio and MSE are those of `auto` shrunk against the",
        f"better of the first two. Settings in brackets, of fewer than {ROWS_PER_BIN} unseen rows a bin, do not count.",
        "",
        "| set | n | B | platt | histogram | platt shrunk | auto | auto shrunk | ratio | MSE | chosen by auto |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in table.to_dict("records"):
        errors = " | ".join(f"{row[f'error {key}'] * 1e4:.2f}" for key in METHODS)
        ratio = f"{row['ratio auto shrunk']:.2f}" if row["counted"] else f"({row['ratio auto shrunk']:.2f})"
        start = f"| {row['set']} | {row['n']:,} | {row['B']} | {errors} | {ratio}"
        lines.append(f"{start} | {row['mse auto shrunk']:+.5f} | {row['families']} |")
    lines += [
        "",
        "## The boundary",
        "",
        "Platt scaling-binning, 10 bins, fitted on a random half: mean error on the other half over 8 halves, x 1e-4.",
        "",
        "| set | fitted boundary | clip at 1e-12 | boundaries chosen |",
        "|---|---|---|---|",
        *boundary_lines,
    ]
    return "\n".join(lines) + "\n"


MARK = "<!-- What follows is written by python -m tests.bench.families -->"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20, help="draws of each setting")
    parser.add_argument("--first-draw", type=int, default=FIRST_DRAW, help="seed of the first of them")
    parser.add_argument("--other", action="store_true", help="other problems, printed and not written")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    table = measure(
        other_sets() if options.other else real_sets(), range(options.first_draw, options.first_draw + options.draws)
    )
    if options.other:
        print(int(table["counted"].sum()), "settings", *summary(table), sep="\n")
        return
    text = document(table, boundaries(), options.draws)
    (ROOT / "docs" / "families.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
