"""Define the DataFrame of a ranking, which pandas can write to Parquet although its `attrs` hold objects of youden."""

from __future__ import annotations

from typing import Any

import pandas as pd


class RankingSeries(pd.Series):
    """Column of a `RankingFrame`; a table that pandas makes from it is a `RankingFrame` again."""

    @property
    def _constructor(self) -> type[RankingSeries]:
        return RankingSeries

    @property
    def _constructor_expanddim(self) -> type[RankingFrame]:
        return RankingFrame


class RankingFrame(pd.DataFrame):
    """DataFrame whose `attrs` are not written to files: pandas writes `attrs` as JSON, which cannot hold objects of youden."""

    @property
    def _constructor(self) -> type[RankingFrame]:
        """Class of the tables that pandas makes from this one, for example by sorting it."""
        return RankingFrame

    @property
    def _constructor_sliced(self) -> type[RankingSeries]:
        """Class of the columns of this table."""
        return RankingSeries

    def to_parquet(self, *args: Any, **options: Any) -> Any:
        """Write the table without its `attrs` to a Parquet file, like `pandas.DataFrame.to_parquet`."""
        return self._without_attrs().to_parquet(*args, **options)

    def to_feather(self, *args: Any, **options: Any) -> None:
        """Write the table without its `attrs` to a Feather file, like `pandas.DataFrame.to_feather`."""
        self._without_attrs().to_feather(*args, **options)

    def _without_attrs(self) -> pd.DataFrame:
        """Return the table as an ordinary DataFrame with empty `attrs`."""
        table = pd.DataFrame(self)
        table.attrs = {}
        return table
