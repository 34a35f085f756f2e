"""What the footer of a file of a trace says, checked before its rows are read. `TraceError` says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from packet_formats import deployment as deployments
from packet_formats.deployment import Deployment, DeploymentError
from packet_formats.layout import layout_of
from packet_formats.schemes import LayoutError

from . import schema
from .files import TraceError
from .present import stored_columns, wrong_column


@dataclass(frozen=True, slots=True)
class Footer:
    """A file's footer. `counted` counts the nulls of a column where the footer does not."""

    said: pq.FileMetaData
    counted: Callable[[str], int]

    def check_format(self) -> None:
        """Check that it is a file of a trace, before anything else is asked."""
        metadata = self.said.metadata or {}
        if schema.META_FORMAT not in metadata:
            raise TraceError("a foreign schema, no file of a trace: it says nothing of a run")
        if wrong := schema.wrong_format(metadata):
            raise TraceError(wrong)

    def _text(self, key: bytes) -> str:
        text: bytes = self.said.metadata.get(key, b"")
        return text.decode(errors="replace")

    @property
    def run(self) -> str:
        return self._text(schema.META_RUN)

    @property
    def origin(self) -> str:
        return self._text(schema.META_ORIGIN)

    @property
    def description(self) -> str:
        """The text of the deployment."""
        return self._text(schema.META_DEPLOYMENT)

    def deployment(self) -> Deployment:
        try:
            deployment = deployments.parse(self.description)
            layout_of(deployment)
        except (DeploymentError, LayoutError) as error:
            raise TraceError(f"its deployment can't be read: {error}") from None
        return deployment

    @property
    def groups(self) -> tuple[int, ...]:
        """The rows of each row group."""
        return tuple(self.said.row_group(g).num_rows for g in range(self.said.num_row_groups))

    def nulls(self, column: str) -> int:
        known = self._statistics(column)
        if all(one is not None and one.has_null_count for one in known):
            return sum(one.null_count for one in known)
        return self.counted(column)

    def bounds(self, column: str) -> list[int]:
        """The least and the largest value of a column in each row group, where the footer has them."""
        known = self._statistics(column) if column in self._columns.names else []
        return [bound for one in known if one is not None and one.has_min_max for bound in (one.min, one.max)]

    def _statistics(self, column: str) -> list[Any]:
        columns = self.said.schema
        place = [columns.column(i).path for i in range(len(columns))].index(column)
        return [self.said.row_group(g).column(place).statistics for g in range(self.said.num_row_groups)]

    def told(self, column: str) -> int:
        """The rows that have a value; none of a column that is not there."""
        return self.said.num_rows - self.nulls(column) if column in self._columns.names else 0

    @property
    def _columns(self) -> pa.Schema:
        return self.said.schema.to_arrow_schema()

    def check(self, wanted: pa.Schema) -> None:
        """Check that the columns are there, and that those which must have a value in each row do."""
        found = self._columns
        for field in wanted:
            if fault := wrong_column(found, field.name, wanted):
                raise TraceError(f"a foreign schema: {fault}")
            plain = [field.name] if not pa.types.is_struct(field.type) else ["stamp.r", "stamp.c"]
            for leaf in [] if field.nullable else stored_columns(found.names, plain):
                if empty := self.nulls(leaf):
                    raise TraceError(f"{empty} rows have no {leaf}")
