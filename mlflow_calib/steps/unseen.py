"""What lets evaluation data speak of a model: scores of its own base model, on rows it has not learnt from."""

from __future__ import annotations

from mlflow_calib.core.split import count_overlap
from mlflow_calib.data.keys import KeyHashes
from mlflow_calib.data.partitions import EVALUATION, RECALIBRATION, PartitionsManifest
from mlflow_calib.errors import DataError, EvidenceError, raise_problems
from mlflow_calib.flavor.tracking import MlflowServer
from mlflow_calib.steps.candidate import Candidate
from mlflow_calib.steps.key_record import rows_a_model_was_fitted_on


def require_unseen(
    server: MlflowServer, candidate: Candidate, manifest: PartitionsManifest, digest: str, *, verified: bool = True
) -> int | None:
    """Refuse evaluation rows that the candidate was recalibrated on; 0, or None where that could not be verified.

    With ``verified`` an unverified candidate is refused too: nothing may be promoted by such evidence.

    On the partitions of its fit both files are compared, whatever the manifest says. On others the key hashes that the
    fit left with its run are: where those are gone, or name rows by other columns, nothing is known.

    Raises
    ------
    EvidenceError
        With the number of rows it was recalibrated on; whether there are any is not known; or the scores are those of
        another base model.
    DataError
        A file is not sorted by distinct key hashes.
    """
    if is_of_the_fit(candidate, digest):
        require_no_overlap(manifest)
        return 0
    _require_same_base_model(candidate, manifest)
    _sorted_hashes(manifest, EVALUATION)
    shared = rows_a_model_was_fitted_on(server, manifest, candidate.calibrator.facts.get("recalibration_keys"))
    if shared:
        raise EvidenceError(
            f"{candidate.model_uri} must be evaluated on rows it has not learnt from, and it was recalibrated on "
            f"{shared} of the {manifest.files[EVALUATION]['n']} evaluation rows in {manifest.uri}; evaluate it on the "
            "partitions of its fit, or on newer rows"
        )
    if shared is None and verified:
        raise EvidenceError(
            f"{candidate.model_uri} must be evaluated on rows it has not learnt from, and whether {manifest.uri} holds "
            "such is not known: the key hashes that its fit left with its run are gone, or are of other key columns "
            "or kinds than these; evaluate it on the partitions of its fit, or fit again"
        )
    return shared


def is_of_the_fit(candidate: Candidate, digest: str) -> bool:
    """Whether a manifest of this digest is that of the partitions the candidate was fitted on."""
    return bool((candidate.calibrator.facts.get("partitions") or {}).get("sha256") == digest)


def require_no_overlap(manifest: PartitionsManifest) -> None:
    """Refuse evaluation rows that are recalibration rows too, counted in the files whatever the manifest says.

    Raises
    ------
    EvidenceError
        With the number of rows that stand in both files.
    DataError
        A file is not sorted by distinct key hashes.
    """
    recalibration, evaluation = (_sorted_hashes(manifest, role) for role in (RECALIBRATION, EVALUATION))
    if shared := count_overlap(evaluation, recalibration):
        raise EvidenceError(
            f"no evaluation row may be among the recalibration rows, and {shared} of {len(evaluation)} in "
            f"{manifest.uri} are; split again"
        )


def _sorted_hashes(manifest: PartitionsManifest, role: str) -> KeyHashes:
    found = manifest.key_hashes(role)
    if not (found[1:] > found[:-1]).all():
        raise DataError(f"{manifest.file_uri(role)} must be sorted by distinct key hashes; split again")
    return found


def _require_same_base_model(candidate: Candidate, manifest: PartitionsManifest) -> None:
    own, calibrator = candidate.base_model, candidate.calibrator
    positive = calibrator.positive_class
    pairs = [
        ("scores of its own base model", own.get("digest"), manifest.base_model.get("digest")),
        ("its own classes", list(calibrator.classes), list(manifest.classes)),
        ("its own positive class", positive, manifest.positive_class),
    ]
    problems = [
        f"{candidate.model_uri} must be evaluated on {what}, {expected!r}"
        + (f" ({own.get('uri')})" if what.startswith("scores") else "")
        + f", and {manifest.uri} holds those of {found!r}; score the rows with its base model, and split"
        for what, expected, found in pairs
        if expected != found
    ]
    if problems:
        raise_problems(problems, EvidenceError)
