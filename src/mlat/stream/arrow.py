"""Arrow, with the parts that files need. Only the extra ``files`` installs it."""

from ..base.errors import require_package

for _name in ("pyarrow", "pyarrow.compute", "pyarrow.csv", "pyarrow.parquet"):
    require_package(_name, "files", "a file or data frame", title="pyarrow")

import pyarrow as pa  # noqa: E402

__all__ = ["pa"]
