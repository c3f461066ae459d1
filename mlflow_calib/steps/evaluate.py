"""Estimate the calibration error of a candidate on evaluation data that neither it nor its calibrator has seen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mlflow_calib.core.policy import Policy
from mlflow_calib.core.policy_tables import MOST_SLICES
from mlflow_calib.flavor.records import log_record, read_record_text
from mlflow_calib.flavor.registry import tag_version
from mlflow_calib.flavor.runs import log_metrics
from mlflow_calib.flavor.tracking import MlflowServer, connected
from mlflow_calib.steps.candidate import (
    Candidate,
    as_tags,
    find_candidate,
    read_calibrator,
    require_own_run,
    verify_base_model,
)
from mlflow_calib.steps.curves import log_figure
from mlflow_calib.steps.evaluated import Evaluation, build_record, metrics_of
from mlflow_calib.steps.evaluation_rows import DataDigest, contenders_of, iter_batches
from mlflow_calib.steps.evaluation_sums import Sums, add_up
from mlflow_calib.steps.hand_over import give, take
from mlflow_calib.steps.opening import open_partitions, open_policy
from mlflow_calib.steps.role import CHAMPION, check_role, role_of
from mlflow_calib.steps.slices import Slices, require_slice_columns
from mlflow_calib.steps.unseen import require_unseen
from mlflow_calib.steps.whole_model import with_model_files

FOLDER = "mlflow_calib"
FIGURE = "figures/reliability.png"


def evaluate(
    partitions: Mapping[str, Any] | str,
    candidate: Mapping[str, Any] | str,
    *,
    policy: Mapping[str, Any] | str | None = None,
    role: str | None = None,
    run_tags: Mapping[str, str] | None = None,
    server: MlflowServer | None = None,
    progress: bool = False,
) -> dict[str, Any]:
    """Estimate candidate, base model, rival and champion on the same rows, and leave the evidence record.

    Nothing is scored again: the candidate is the column of base scores put through the calibrator of the logged model.
    Memory holds a batch of rows and sums; for AUC, but of marginal, also the continuous outputs, 8 bytes a row of the
    base model and of a champion that is binned like it, and twice that while one is sorted.

    Parameters
    ----------
    partitions
        What ``split`` returned, its JSON, or the URI of its manifest: those of the fit, or others scored with the same
        base model, of whose evaluation rows the candidate was recalibrated on none.
    candidate
        What ``fit`` returned, its JSON, ``models:/<name>/<version>``, or ``models:/<name>@<alias>``; an alias is
        resolved once, here, and recorded.
    policy
        Of the gate, as dict, JSON or URI: the bounds shown are of its level, and its slices are collected. The verdict
        recomputes the bounds.
    role
        "candidate": compared with the champion of the partitions. "champion": the version that holds the alias,
        evaluated on its own; the record compares with no champion, nothing can be promoted by it, and the evidence
        that it was promoted by stays. By default "champion" where the candidate is named by the champion's alias.
    run_tags
        Further tags of the candidate's run; those that the fit has set stay.
    server
        By default the one of the environment.
    progress
        Show a bar.

    Returns
    -------
    dict
        Hand-over ``mlflow_calib.evaluate/1``: uri and sha256 of ``evidence.json``, run_id, model_uri, version, name,
        role, calibration_error and upper_bound (roots; None where the data are too few), mse, n, status.

    Raises
    ------
    EvidenceError
        The candidate was recalibrated on evaluation rows (with their number), or whether it was is not known; it
        belongs to another base model than the scores, is the champion itself, was changed since it was logged, or is a
        copy of another version.
    DataError
        The evaluation data are missing or changed, or lack columns of slices that the policy asks for.
    InvalidInputError
        The policy or the role is wrong, or the version does not hold the alias.
    ModelError
        The run of the candidate was deleted, or its calibrator or rival is damaged.
    """
    server = server or MlflowServer.from_environment()
    check_role(role)
    rules = open_policy(policy)
    manifest, digest = open_partitions(partitions)
    columns = require_slice_columns(manifest, rules.slice_columns())
    found = find_candidate(server, take(candidate, "mlflow_calib.fit/1", "candidate"))
    run_id = require_own_run(server, found)
    given = role_of(server, found, manifest, role)
    shared = require_unseen(server, found, manifest, digest, verified=given != CHAMPION)
    verify_base_model(server, found)
    found = with_model_files(server, found, run_id)
    evaluation = Evaluation(found, given, manifest, digest, rules, shared)
    record, sums = _evaluated(server, evaluation, columns, progress=progress)
    return _logged(server, evaluation, record, sums, run_tags or {})


def _evaluated(
    server: MlflowServer, evaluation: Evaluation, columns: Mapping[str, str], *, progress: bool
) -> tuple[dict[str, Any], Sums]:
    """Read the rows once, all models side by side."""
    manifest, calibrator = evaluation.manifest, evaluation.candidate.calibrator
    where = f"runs:/{evaluation.candidate.run_id}/{FOLDER}/rival.json"
    rival = read_calibrator(read_record_text(server, where), where)
    contenders = contenders_of(manifest, calibrator, rival, champion=evaluation.compares)
    data, slices = DataDigest(), _slices(evaluation.policy)
    options: dict[str, Any] = {"champion": evaluation.compares, "slices": columns, "progress": progress}
    batches = iter_batches(manifest, data, calibrator.score_kind, **options)
    sums = add_up(contenders, batches, None if slices is None else slices.of)
    return build_record(server, evaluation, contenders, sums, slices, data.text()), sums


def _slices(policy: Policy) -> Slices | None:
    whole, named = policy.whole_columns(), policy.named_slices()
    return Slices(whole, named, MOST_SLICES) if whole or named else None


def _logged(
    server: MlflowServer, evaluation: Evaluation, record: Mapping[str, Any], sums: Sums, run_tags: Mapping[str, str]
) -> dict[str, Any]:
    """Figure, metrics and tags beside the evidence; the record is the last to be written."""
    candidate, run_id = evaluation.candidate, str(evaluation.candidate.run_id)
    folder, figure, prefix = _places(evaluation, record)
    log_figure(server, run_id, figure, candidate, sums)
    log_metrics(server, run_id, metrics_of(record), model_id=candidate.model_id)
    uri, sha256 = log_record(server, run_id, f"{folder}/evidence.json", record)
    estimate, evaluated_at = record["estimates"]["candidate"], record["evaluated_at"]
    figures = {"calibration_error": estimate["root"], "upper_bound": estimate["upper_bound"], "n": estimate["n"]}
    shown = {"evidence": uri, "evidence_sha256": sha256, "evaluated_at": evaluated_at, **figures}
    _tag(server, candidate, run_tags, as_tags(prefix, shown))
    return give(
        "evaluate",
        uri=uri,
        sha256=sha256,
        run_id=run_id,
        model_uri=candidate.model_uri,
        version=candidate.version,
        name=candidate.name,
        role=evaluation.role,
        mse=estimate["mse"],
        status=estimate["status"],
        **figures,
    )


def _places(evaluation: Evaluation, record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Folder of the record, file of the figure, prefix of the tags: a champion's own evidence has its own for each."""
    if evaluation.role != CHAMPION:
        return FOLDER, FIGURE, "mlflow_calib"
    moment = re.sub(r"\+00:00$", "Z", str(record["evaluated_at"])).replace("-", "").replace(":", "")
    folder = f"{FOLDER}/champion/{moment}"
    return folder, f"{folder}/reliability.png", "mlflow_calib.champion"


def _tag(server: MlflowServer, candidate: Candidate, run_tags: Mapping[str, str], tags: Mapping[str, str]) -> None:
    """Tags of the version, and those of the run that the fit has not set."""
    with connected(server) as client:
        of_the_fit = client.get_run(str(candidate.run_id)).data.tags
        for name in run_tags.keys() - of_the_fit.keys():
            client.set_tag(candidate.run_id, name, run_tags[name])
        tag_version(client, candidate.name, candidate.version, dict(tags))
