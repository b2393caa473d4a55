"""A release: numbers within their limits, error bars and certificate, stored, shown and read back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, final

import msgspec
import polars as pl

from pufferflow.core.durable_files import write_whole
from pufferflow.core.errors import UsageError, escape_controls
from pufferflow.core.notebook import MOST_ROWS, Card, InNotebooks
from pufferflow.core.paths import local_path
from pufferflow.core.rounding import agree_in_words
from pufferflow.core.sandbox import sandboxed
from pufferflow.core.suggestions import HelpfulAttributes
from pufferflow.published import files
from pufferflow.published.certificate import Certificate
from pufferflow.reports.evidence import Evidence
from pufferflow.reports.numbers import promise_in_words

if TYPE_CHECKING:
    from pufferflow.reports.bars_in_words import Bars
    from pufferflow.reports.charts.base import Chart
    from pufferflow.reports.styled import StyledTable


@final
@dataclass(frozen=True, eq=False)
class Clipped(InNotebooks):
    """Numbers and error bars that are possible, in the columns of the release; counts are whole numbers.

    `frame` has null for means of no rows and the like, where it is public that there are none.
    """

    frame: pl.DataFrame
    intervals: pl.DataFrame


def clipped(frame: pl.DataFrame, intervals: pl.DataFrame, limits: pl.DataFrame) -> Clipped:
    """Return numbers and bars cut to limits; columns are identified by place, so that names can be any."""
    keys = _keys(frame, limits)
    numbers, bars = frame.get_columns()[:keys], frame.get_columns()[:keys]
    for place in range(frame.width - keys):
        low, high = keys + 2 * place, keys + 2 * place + 1
        number, ends = (
            frame.to_series(keys + place),
            (intervals.to_series(low), intervals.to_series(high)),
        )
        least, most = limits.to_series(low), limits.to_series(high)
        if least.dtype.is_integer():  # outwards, so that bars only widen
            number, ends = number.round(), (ends[0].floor(), ends[1].ceil())
        cut, *cut_ends = (_cut(series, least, most) for series in (number, *ends))
        numbers.append(cut.set(least.is_null(), None))
        bars += cut_ends
    return Clipped(pl.DataFrame(numbers), pl.DataFrame(bars))


def together(frame: pl.DataFrame, intervals: pl.DataFrame, limits: pl.DataFrame) -> pl.DataFrame:
    """Return one table of bars and limits, which `parted` takes apart again."""
    return intervals.hstack(limits.get_columns()[_keys(frame, limits) :])


def parted(frame: pl.DataFrame, ends: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return bars, and the limits if there are any: three times as many columns more than the release has outputs."""
    if not frame.width or ends.columns[-1:] != [f"{frame.columns[-1]}_most"]:
        return ends, None
    outputs = (ends.width - frame.width) // 3
    columns = ends.get_columns()
    keys, limits = columns[: frame.width - outputs], columns[-2 * outputs :]
    return pl.DataFrame(columns[: -2 * outputs]), pl.DataFrame([*keys, *limits])


def _keys(frame: pl.DataFrame, limits: pl.DataFrame) -> int:
    """Return the number of key columns in front of the outputs; limits have two columns for each output."""
    return 2 * frame.width - limits.width


def _cut(numbers: pl.Series, least: pl.Series, most: pl.Series) -> pl.Series:
    """Return numbers within limits, in the dtype of these; where there are none, as they are."""
    columns = pl.DataFrame({"given": numbers, "least": least, "most": most})
    cut = (
        pl.when(pl.col("least").is_null())
        .then("given")
        .otherwise(pl.col("given").clip("least", "most"))
    )
    return columns.select(cut.cast(least.dtype).alias(numbers.name)).to_series()


@final
class _StoredRelease(msgspec.Struct, frozen=True):
    """A release as bytes: two Arrow files and the certificate; the second file has `Release.ends`."""

    frame: bytes
    intervals: bytes
    certificate: str


@final
@dataclass(frozen=True, eq=False, repr=False)
class Release(InNotebooks, HelpfulAttributes):
    """Numbers that may be published, their error bars, and the certificate that goes with them.

    `frame` has the keys and one column for each output; `intervals` has for each output the ends of the interval that
    holds, with probability 95 % over the noise or more, what the output would be without noise. `limits` has the ends
    of what each output can be at all, from public facts alone, to which `clipped` cuts both.

    >>> import polars as pl, pufferflow as pf
    >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
    >>> release = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").release(epsilon=1.0)
    >>> release.frame.columns, release.intervals.columns
    (['level_sum'], ['level_sum_low', 'level_sum_high'])
    """

    frame: pl.DataFrame
    intervals: pl.DataFrame
    certificate: Certificate
    limits: pl.DataFrame | None = None
    plan_evidence: Callable[[], Evidence | None] | None = field(default=None, repr=False)
    """The plan's evidence for the report, computed on demand; it is not stored with the numbers."""

    def _own_examples(self) -> Mapping[str, str]:
        asked = {f"{name}_low" for name in self.frame.columns} & set(self.intervals.columns)
        keys = [name for name in self.frame.columns if f"{name}_low" not in asked]
        outputs = [name for name in self.frame.columns if f"{name}_low" in asked]
        found = {'"level_sum"': f'"{outputs[0]}"'} if outputs else {}
        return found | ({'"day"': f'"{keys[0]}"'} if keys and "day" not in keys else {})

    def clipped(self) -> Clipped:
        """Return numbers and error bars cut to their possible values, counts as whole numbers; it costs nothing (M47).

        Sums are cut to the range of so many rows, counts to 0 and the number of rows, means and quantiles to their
        range; limits that follow from a private number of rows are left out. Bars keep their coverage.
        Cut numbers are biased near a limit: compute totals and means of several groups from `frame`.

        >>> import polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent())
        >>> batch = pf.protect(pl.DataFrame({"on": [0, 1]}), scenario).private_count(pl.col("on") > 0, name="n")
        >>> cut = batch.release(epsilon=0.01).clipped()
        >>> cut.frame["n"].item() in {0, 1, 2}, cut.intervals.columns
        (True, ['n_low', 'n_high'])
        """
        if self.limits is None:
            raise UsageError(
                "The release was stored without its limits, as older ones were.",
                allowed="a release of this version of pufferflow",
                instead="release.frame and release.intervals, which are as they were published",
            )
        return clipped(self.frame, self.intervals, self.limits)

    @property
    def ends(self) -> pl.DataFrame:
        """The error bars as stored, with the limits beside them; of older releases the bars alone."""
        return (
            self.intervals
            if self.limits is None
            else together(self.frame, self.intervals, self.limits)
        )

    def write_parquet(self, folder: str | Path) -> Path:
        """Write the release into a folder, which `Release.read` reads back: two Parquet files and the certificate.

        The folder appears whole; in one that is there, each file is replaced whole.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
        >>> release = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").release(epsilon=1.0)
        >>> folder = release.write_parquet(Path(tempfile.mkdtemp()) / "monday")
        >>> sorted(path.name for path in folder.iterdir())
        ['certificate.json', 'intervals.parquet', 'release.parquet']
        """
        return self._write(folder, "parquet")

    def write_csv(self, folder: str | Path) -> Path:
        """Write the release into a folder: two CSV files, `schema.json` with the dtypes, and the certificate.

        Numbers are read back exactly. Null is an empty field, an empty text is `""`; NaN, inf and -inf stand as these
        words. Keys that are lists, structs or bytes are refused before anything is written.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
        >>> release = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").release(epsilon=1.0)
        >>> pf.Release.read(release.write_csv(Path(tempfile.mkdtemp()) / "monday")).frame.equals(release.frame)
        True
        """
        return self._write(folder, "csv")

    def write_ndjson(self, folder: str | Path) -> Path:
        r"""Write the release into a folder as `write_csv` does, with a JSON object on a line for each row.

        NaN, inf and -inf stand as texts, since JSON has no numbers for them.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
        >>> release = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").release(epsilon=1.0)
        >>> folder = release.write_ndjson(Path(tempfile.mkdtemp()) / "monday")
        >>> (folder / "release.ndjson").read_text()
        '{"level_sum":...}\n'
        """
        return self._write(folder, "ndjson")

    def _write(self, folder: str | Path, form: str) -> Path:
        place = local_path(folder, "The folder")
        written(
            lambda: files.write(files.Parts(self.frame, self.ends, self.certificate), place, form),
            place,
        )
        return place

    @classmethod
    def read(cls, folder: str | Path) -> "Release":
        """Return the release that `write_parquet`, `write_csv` or `write_ndjson` wrote."""
        place = local_path(folder, "The folder")
        return replace(
            cls._of(*files.read(place)), plan_evidence=lambda: files.read_evidence(place)
        )

    def to_bytes(self) -> bytes:
        """Return the release as bytes, which `from_bytes` reads back unchanged; a ledger stores them."""
        return msgspec.msgpack.encode(
            _StoredRelease(_as_bytes(self.frame), _as_bytes(self.ends), self.certificate.to_json())
        )

    @classmethod
    def from_bytes(cls, stored: bytes) -> "Release":
        """Return the release that `to_bytes` gave."""
        try:
            parts = msgspec.msgpack.decode(stored, type=_StoredRelease)
        except (msgspec.MsgspecError, TypeError, RecursionError) as error:
            raise UsageError(
                "The bytes are no stored release.",
                allowed="what to_bytes gave",
                instead="release.to_bytes()",
            ) from error
        frames = sandboxed(
            lambda: [pl.read_ipc_stream(BytesIO(part)) for part in (parts.frame, parts.intervals)]
        )
        return cls._of(frames[0], frames[1], Certificate.from_json(parts.certificate))

    @classmethod
    def _of(cls, frame: pl.DataFrame, ends: pl.DataFrame, certificate: Certificate) -> "Release":
        intervals, limits = parted(frame, ends)
        return cls(frame, intervals, certificate, limits)

    def page(self, evidence: Evidence | None = None, job: str = "", period: str = "") -> str:
        """Return the report that `report` writes, as HTML; evidence of another plan is refused.

        `job` and `period` are for the heading, where evidence does not name them.
        """
        from pufferflow.reports.pages import release_page

        if evidence is None and self.plan_evidence is not None:
            evidence = self.plan_evidence()
        own = repr(self.certificate.promise), self.certificate.hidden
        if evidence is not None and not agree_in_words((evidence.promise, evidence.scenario), own):
            raise UsageError(
                "The evidence is of another plan than the release.",
                allowed="the evidence of the plan that was released, or None",
                instead="release.report(path), which has the evidence of its own plan, or none",
            )
        now, rows = datetime.now(UTC), self.certificate.rows()
        return release_page(
            self.frame,
            self.intervals,
            rows,
            evidence,
            now,
            possible=self._possible,
            job=job,
            period=period,
            entry=self.certificate.entry or "",
        )

    def report(self, path: str | Path, evidence: Evidence | None = None) -> Path:
        """Write a report for people, one HTML file that needs nothing else.

        It has the evidence of the plan for a release that was just made, or read from a folder with `evidence.json`.
        For other releases give `evidence`, as `plan.evidence()` returns it.

        >>> import tempfile, polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
        >>> plan = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").plan(pf.Pure(1.0))
        >>> page = plan.release().report(Path(tempfile.mkdtemp()) / "release.html")
        >>> "The guarantee in full" in page.read_text(encoding="utf-8")
        True
        """
        place, page = local_path(path, "The place of a report"), self.page(evidence)
        put_text(place, page)
        return place

    def plot(self, outputs: str | Sequence[str] | None = None) -> "Chart":
        """Return a chart of the numbers with their error bars, made with Altair (the extra `notebook`).

        Each output has a panel. Its axis is the group column with times or numbers, if there is one; other groups have
        a colour each. `outputs` names those to draw. Of very many groups some are drawn, and the chart says which.

        >>> import polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent(), public=["day"])
        >>> rows = pl.DataFrame({"day": [1, 1, 2], "on": [0, 1, 1]})
        >>> release = pf.protect(rows, scenario).group_by("day").private_sum("on", name="load").release(epsilon=9.0)
        >>> chart = release.plot()
        >>> chart.to_dict()["title"]["text"], len(chart.to_dict()["layer"])
        ('Published: load', 2)
        """
        from pufferflow.reports.charts.published import release_chart

        queries = [(query.query, query.outputs) for query in self.certificate.queries]
        return release_chart(self.frame, self.intervals, self._guarantee_in_words, queries, outputs)

    @property
    def style(self) -> "StyledTable":
        """The numbers with their error bars as a table of great_tables (the extra `notebook`), to be styled further.

        >>> import polars as pl, pufferflow as pf
        >>> scenario = pf.Scenario(pf.Secret("level", domain=[0, 1, 2, 3]), pf.Independent())
        >>> release = pf.protect(pl.DataFrame({"level": [0, 3, 2]}), scenario).private_sum("level").release(epsilon=1.0)
        >>> "±" in release.style.tab_header(title="Levels").as_raw_html()
        True
        """
        from pufferflow.reports.styled import styled

        bars = self._bars(self.frame.height)
        numbers = range(bars.keys, len(bars.head))
        title, below = "Published numbers", "with their error bars"
        notes = [*bars.notes, self._guarantee_in_words, self._counted]
        return styled(title, below, bars.head, bars.rows, notes, numbers)

    def _bars(self, rows: int) -> "Bars":
        """Return the first rows as texts."""
        from pufferflow.reports.bars_in_words import bars_of

        limits = None if self.limits is None else self.limits.head(rows)
        return bars_of(self.frame.head(rows), self.intervals.head(rows), limits)

    def _card(self) -> Card:
        bars, words = self._bars(MOST_ROWS), [self._guarantee_in_words, self._counted]
        notes = [
            *bars.notes,
            "release.certificate has the proof, release.report(path) writes a report.",
        ]
        return Card(
            "Release", words, head=bars.head, rows=bars.rows, of=self.frame.height, notes=notes
        )

    @property
    def _guarantee_in_words(self) -> str:
        return f"Guarantee: {promise_in_words(self.certificate.promise)}."

    @property
    def _counted(self) -> str:
        """Which account counts the release."""
        entry = self.certificate.entry
        return f"Ledger: entry {entry}." if entry else "No account counts this release."

    def __getstate__(self) -> dict[str, object]:
        """Leave out what holds the plan, and so the private frame: a copied or pickled release has numbers only."""
        return {**vars(self), "plan_evidence": None}

    def __repr__(self) -> str:
        """Show the numbers, the guarantee, and the entry of the ledger."""
        counted = (
            f"entry {self.certificate.entry}"
            if self.certificate.entry
            else "nobody is counting (no account)"
        )
        return f"{escape_controls(str(self.frame))}\n{self.certificate.promise!r}, {counted}"

    @property
    def _possible(self) -> pl.DataFrame:
        """The error bars for people, cut to their limits if these are stored."""
        return self.intervals if self.limits is None else self.clipped().intervals


def put_text(place: Path, text: str) -> None:
    """Write a file whole or not at all; a symbolic link is replaced, and what it leads to is left alone."""
    written(lambda: write_whole(place, [text.encode()]), place)


def written(write: Callable[[], object], place: Path) -> None:
    """Write files; raise a refusal that names the place where that fails."""
    try:
        write()
    except OSError as error:
        raise UsageError(
            f"Nothing can be written to {str(place)[:200]!r}: {type(error).__name__}.",
            allowed="a place that exists and may be written to",
            instead="another folder",
        ) from error


def _as_bytes(frame: pl.DataFrame) -> bytes:
    place = BytesIO()
    frame.write_ipc_stream(place)
    return place.getvalue()
