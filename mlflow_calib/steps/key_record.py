"""Key hashes of the rows a model was recalibrated on, kept with its run: a work folder does not outlive a champion."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mlflow_calib.core.split import count_overlap
from mlflow_calib.data.keys import KeyHashes, sorted_digest
from mlflow_calib.data.partitions import EVALUATION, RECALIBRATION, PartitionsManifest
from mlflow_calib.data.predictions import KEY_HASH
from mlflow_calib.data.records import same_sha256
from mlflow_calib.errors import MlflowCalibError
from mlflow_calib.flavor.records import is_missing
from mlflow_calib.flavor.tracking import MlflowServer, connected

FOLDER, NAME = "mlflow_calib", "recalibration_keys.parquet"


def log_key_hashes(server: MlflowServer, run_id: str, manifest: PartitionsManifest) -> str:
    """Write the key hashes of the recalibration rows, 8 bytes a row, to the run; returns their URI."""
    hashes = manifest.key_hashes(RECALIBRATION)
    with tempfile.TemporaryDirectory() as folder, connected(server) as client:
        path = Path(folder) / NAME
        pq.write_table(pa.table({KEY_HASH: hashes}), path, compression="none", use_dictionary=False)
        client.log_artifact(run_id, str(path), FOLDER)
    return f"runs:/{run_id}/{FOLDER}/{NAME}"


def rows_a_model_was_fitted_on(
    server: MlflowServer, manifest: PartitionsManifest, recalibration_keys: Any
) -> int | None:
    """Evaluation rows among the recalibration data of a model; None where that cannot be shown.

    The file of its key hashes may be gone, or be another one by now, or hold keys of other columns or kinds, whose
    hashes never meet: then nothing is known.
    """
    if not isinstance(recalibration_keys, Mapping) or not recalibration_keys.get("uri"):
        return None
    if recalibration_keys.get("key_kinds") != dict(manifest.key_kinds):
        return None
    theirs = _key_hashes(server, str(recalibration_keys["uri"]))
    if theirs is None or not same_sha256(sorted_digest(theirs), str(recalibration_keys.get("sha256"))):
        return None
    return int(count_overlap(manifest.key_hashes(EVALUATION), theirs))


def _key_hashes(server: MlflowServer, uri: str) -> KeyHashes | None:
    import mlflow
    from mlflow.exceptions import MlflowException

    try:
        with tempfile.TemporaryDirectory() as folder, connected(server):
            table = pq.read_table(mlflow.artifacts.download_artifacts(uri, dst_path=folder), columns=[KEY_HASH])
    except MlflowException as error:
        if not is_missing(error):
            raise
        return None
    except (MlflowCalibError, pa.ArrowException, OSError, KeyError):
        return None
    return np.sort(np.asarray(table[KEY_HASH].to_numpy(), dtype=np.uint64))
