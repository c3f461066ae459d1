"""Score rows with a base model, and with the champion beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlflow_calib.provider.fields import FieldReader
from mlflow_calib.provider.operators.base import CalibrationOperator, as_of, output_uri

if TYPE_CHECKING:
    from airflow.sdk import Context


class ScoreModelOperator(CalibrationOperator):
    """Write the scores of a base model, and of the champion, for the rows of a table.

    Every parameter is templated; lists and mappings may be JSON texts after rendering, "" counts as absent.

    Parameters
    ----------
    model_uri : str
        Base model, for example ``models:/flights-base/3`` or ``models:/flights-base@candidate``.
    work_uri : str
        Folder all workers reach; this task writes below ``<dag_id>/<run_id>/<task_id>``.
    data_uri, recalibration_uri, evaluation_uri : str, optional
        Either one table that a split divides, or one for each purpose. Parquet or CSV, local or remote.
    key_columns : sequence of str
        Columns that name a row; they keep recalibration and evaluation data apart.
    label_column : str
        Column of the outcomes.
    group_column, time_column : str, optional
        Column of rows that move together (a day, a user); column of the time a split by time reads.
    slice_columns, feature_columns : sequence of str, optional
        Columns to keep for slices; columns to call the model with, by default its signature's.
    positive_class, classes, base_score : optional
        Which class the score is the probability of, all classes, and where the model keeps its score, such as "logit",
        the name of an output, or ``{"logit": name}``. Texts of the first two are read as JSON where they are: ``1`` is
        the number, ``"1"`` in its own quotes the text.
    champion : str, optional
        The model now in use, for example ``models:/flights@champion``; scored on the same rows.
    split, as_of : optional
        How rows will be divided, as :class:`CalibrationSplitOperator` takes it: only rows of its periods are read.
        Days count back from ``as_of``, by default when the DAG run was due.
    drop_unlabelled : bool
        Drop and count rows without a label in place of an error.
    **kwargs
        ``mlflow_conn_id`` and what every Airflow operator takes.
    """

    template_fields: Sequence[str] = (
        *("model_uri", "work_uri", "data_uri", "recalibration_uri", "evaluation_uri", "key_columns", "label_column"),
        *("group_column", "time_column", "slice_columns", "feature_columns", "positive_class", "classes"),
        *("base_score", "champion", "split", "as_of", "drop_unlabelled", "mlflow_conn_id"),
    )

    def __init__(
        self,
        *,
        model_uri: str,
        work_uri: str,
        key_columns: Sequence[str] | str,
        label_column: str,
        data_uri: str | None = None,
        recalibration_uri: str | None = None,
        evaluation_uri: str | None = None,
        group_column: str | None = None,
        time_column: str | None = None,
        slice_columns: Sequence[str] | str = (),
        feature_columns: Sequence[str] | str | None = None,
        positive_class: Any = None,
        classes: Sequence[Any] | str | None = None,
        base_score: Mapping[str, Any] | str = "auto",
        champion: str | None = None,
        split: Mapping[str, Any] | str | None = None,
        as_of: str | None = None,
        drop_unlabelled: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.model_uri = model_uri
        self.work_uri = work_uri
        self.key_columns = key_columns
        self.label_column = label_column
        self.data_uri = data_uri
        self.recalibration_uri = recalibration_uri
        self.evaluation_uri = evaluation_uri
        self.group_column = group_column
        self.time_column = time_column
        self.slice_columns = slice_columns
        self.feature_columns = feature_columns
        self.positive_class = positive_class
        self.classes = classes
        self.base_score = base_score
        self.champion = champion
        self.split = split
        self.as_of = as_of
        self.drop_unlabelled = drop_unlabelled

    def run_step(self, context: Context) -> dict[str, Any]:
        """Call :func:`mlflow_calib.steps.score`."""
        from mlflow_calib.steps import score

        fields = FieldReader(self)
        model_uri, work_uri = fields.required_text("model_uri"), fields.required_text("work_uri")
        arguments = {**self._tables(fields), **self._columns(fields), **self._models(fields)}
        moment = as_of(fields.text("as_of"), context)
        fields.check()
        target = output_uri(work_uri, context)
        result = score(model_uri, target, as_of=moment, server=self.get_server(), **arguments)
        self.log.info("Scored %s rows with %s: %s", result.get("n"), result.get("model_uri"), result["uri"])
        return result

    @staticmethod
    def _tables(fields: FieldReader) -> dict[str, Any]:
        names = ("data_uri", "recalibration_uri", "evaluation_uri")
        return {
            **{name: fields.text(name) for name in names},
            "split": fields.settings("split"),
            "drop_unlabelled": fields.truth("drop_unlabelled"),
        }

    @staticmethod
    def _columns(fields: FieldReader) -> dict[str, Any]:
        return {
            "key_columns": fields.names("key_columns"),
            "label_column": fields.required_text("label_column"),
            "group_column": fields.text("group_column"),
            "time_column": fields.text("time_column"),
            "slice_columns": fields.names("slice_columns"),
            "feature_columns": fields.names("feature_columns") or None,
        }

    @staticmethod
    def _models(fields: FieldReader) -> dict[str, Any]:
        return {
            "positive_class": fields.plain("positive_class"),
            "classes": fields.plain("classes"),
            "base_score": fields.document("base_score") or "auto",
            "champion": fields.text("champion"),
        }
