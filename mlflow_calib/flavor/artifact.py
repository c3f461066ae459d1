"""The files of a calibrated model: MLmodel, bundle, bundled runtime and environment."""

from __future__ import annotations

import hashlib
import importlib.resources
import logging
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow_calib import __version__, runtime
from mlflow_calib.errors import ModelError
from mlflow_calib.flavor.environment import finish_environment
from mlflow_calib.flavor.facts import travelling_facts
from mlflow_calib.flavor.opened import OpenedBase
from mlflow_calib.flavor.resolved import BUNDLE, FLAVOR_NAME
from mlflow_calib.runtime import model_files

if TYPE_CHECKING:
    from mlflow_calib.core.calibrator import Calibrator

log = logging.getLogger(__name__)


def write_artifact(
    path: Path,
    base: Path,
    packaged: Calibrator,
    model: Any,
    input_example: Any,
    bundle_runtime: bool,
    embed: bool,
    environment: Mapping[str, Any],
    code_paths: Sequence[str] | None = None,
) -> None:
    """Write the files of a calibrated model to ``path``, which must be absent or empty."""
    import mlflow.pyfunc

    with tempfile.TemporaryDirectory() as scratch:
        bundle = Path(scratch) / "bundle"
        bundle.mkdir()
        if embed:
            _copy_model(base, bundle / "base_model")
        (bundle / "calibrator.json").write_text(packaged.to_json(), encoding="utf-8")
        module, runtime_paths = _loader(Path(scratch), bundle_runtime)
        mlflow.pyfunc.save_model(
            str(path),
            loader_module=module,
            data_path=str(bundle),
            code_paths=[*map(str, code_paths or []), *runtime_paths] or None,
            mlflow_model=model,
            input_example=input_example,
            **environment,
        )
    finish_environment(path, base)


def _copy_model(source: Path, target: Path) -> None:
    for file in model_files(source):
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)


def base_record(facts: Mapping[str, Any], embed: bool) -> dict[str, Any]:
    """What ``calibrator.json`` records of the base model; ModelError where one not embedded has no lasting name."""
    if embed:
        return dict(facts)
    if not runtime.PINNED.match(str(facts["uri"])):
        raise ModelError(
            "a base model that is not embedded must be named for good, by models:/m-... or models:/<name>/<version>, "
            f"got {facts['uri'] or 'an object'}; log it to the server first, or leave embed=True"
        )
    return {**facts, "embedded": False}


def runtime_source() -> bytes:
    """The text of ``runtime.py``, which goes into artifacts under a name that holds its hash."""
    return importlib.resources.files("mlflow_calib").joinpath("runtime.py").read_bytes()


def _loader(scratch: Path, bundle_runtime: bool) -> tuple[str, list[str]]:
    """Name of the loader module, and the file to bundle.

    Two artifacts in one process that bundle different code under one name would both run the first one's, hence the
    hash in the name.
    """
    if not bundle_runtime:
        return "mlflow_calib.runtime", []
    source = runtime_source()
    file = scratch / f"_mlflow_calib_rt_{hashlib.sha256(source).hexdigest()[:12]}.py"
    file.write_bytes(source)
    return file.stem, [str(file)]


def model_meta(
    base: OpenedBase,
    packaged: Calibrator,
    signature: Any,
    bundle_runtime: bool,
    metadata: Mapping[str, Any] | None,
    mlflow_model: Any,
) -> Any:
    """MLflow's ``Model`` with our flavor, signature and meta data, before the files are written."""
    from mlflow.models import Model

    document = runtime.read_calibrator(packaged.to_json())
    model = Model() if mlflow_model is None else mlflow_model
    model.run_id = base.run_id or model.run_id
    model.add_flavor(
        FLAVOR_NAME,
        schema_version=document["schema_version"],
        mlflow_calib_version=__version__,
        data=BUNDLE,
        method=document["method"],
        reduction=document["reduction"],
        classes=list(document["classes"]),
        base_model={key: base.facts[key] for key in ("uri", "model_id", "digest", "flavors")},
        bundled_runtime=bundle_runtime,
        embedded_base_model=document["base_model"].get("embedded", True),
    )
    model.metadata = {**(model.metadata or {}), **(metadata or {}), FLAVOR_NAME: travelling_facts(document)}
    model.signature = _signature(base.meta.signature, signature, document)
    return model


def _signature(base: Any, given: Any, document: Mapping[str, Any]) -> Any:
    """Inputs and params of the base model, our output, and the param ``output``."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    chosen = base if given is None else (given or None)
    inputs, params = (None, None) if chosen is None else (chosen.inputs, chosen.params)
    if inputs is None and given is not False:
        log.warning("the base model has no signature, so the calibrated model does not check its input either")
    binary = document["reduction"] == "binary"
    columns = [ColSpec("double")] if binary else [ColSpec("double", name=str(label)) for label in document["classes"]]
    others = [] if params is None else [param for param in params.params if param.name != "output"]
    ours = ParamSchema([*others, ParamSpec("output", "string", "probability")])
    return ModelSignature(inputs=inputs, outputs=Schema(columns), params=ours)
