"""Delta and Iceberg tables stay at one version from plan to release; certificates say which, and no more."""

import json
import shutil
from pathlib import Path

import object_store
import polars as pl
import pytest

import pufferflow as pf
from pufferflow.jobs.file import schema

HOUSES = pl.DataFrame(
    {"house": [1, 1, 2, 2], "hour": [0, 1, 0, 1], "day": ["a", "b", "a", "b"], "on": [1, 0, 1, 1]}
)
MORE = pl.DataFrame({"house": [3, 3], "hour": [0, 1], "day": ["a", "b"], "on": [1, 1]})


class Delta:
    kind = "delta"

    def __init__(self, folder):
        self.path = str(folder / "houses")

    def write(self, frame, mode="append"):
        frame.write_delta(self.path, mode=mode)

    def scan(self, version=None):
        from pufferflow_connectors.sources import delta

        return delta.scan(self.path, version)

    def versions(self):
        from deltalake import DeltaTable

        return sorted(entry["version"] for entry in DeltaTable(self.path).history())

    def clean(self):
        """Remove the files that the newest version does not have."""
        from deltalake import DeltaTable

        assert DeltaTable(self.path).vacuum(
            retention_hours=0, enforce_retention_duration=False, dry_run=False
        )

    @property
    def keys(self):
        return 'kind = "delta"\npath = "houses"\n'


class Iceberg:
    kind = "iceberg"

    def __init__(self, folder):
        from pyiceberg.catalog import load_catalog

        self.folder = folder
        self.options = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}",
        }
        self.catalog = load_catalog("default", **self.options)
        self.catalog.create_namespace("energy")
        self.table = self.catalog.create_table("energy.houses", HOUSES.to_arrow().schema)

    def write(self, frame, mode="append"):
        getattr(self.table, mode)(frame.to_arrow().cast(self.table.schema().as_arrow()))

    def scan(self, version=None):
        from pufferflow_connectors.sources import iceberg

        return iceberg.scan("energy.houses", version, options=self.options)

    def versions(self):
        return [entry.snapshot_id for entry in self.catalog.load_table("energy.houses").history()]

    def clean(self):
        """Remove the files that the newest snapshot does not have."""
        known = self.catalog.load_table("energy.houses").scan().plan_files()
        kept = {Path(file.file.file_path.removeprefix("file://")) for file in known}
        for path in self.folder.rglob("data/*.parquet"):
            if path not in kept:
                path.unlink()

    @property
    def keys(self):
        options = "\n".join(f'{name} = "{value}"' for name, value in self.options.items())
        return f'kind = "iceberg"\ntable = "energy.houses"\n[source.options]\n{options}\n'


PACKAGES = {Delta: "deltalake", Iceberg: "pyiceberg"}


@pytest.fixture(params=PACKAGES, ids=lambda kind: kind.kind)
def table(request, tmp_path):
    """A table with one version."""
    pytest.importorskip(PACKAGES[request.param])
    made = request.param(tmp_path)
    made.write(HOUSES)
    return made


def plan_of(frame, prior=None):
    scenario = pf.Scenario(
        pf.Secret("on", domain=[0, 1]), prior or pf.AnyCorrelation(), within="house", public=["day"]
    )
    return pf.protect(frame, scenario).group_by("day").private_sum("on").plan(epsilon=1e6)


def answers(release):
    return release.frame["on_sum"].round().to_list()


def test_a_version_stays_from_plan_to_release(table):
    """What is written to the table in between changes nothing; the next plan has the next version."""
    plan = plan_of(table.scan())
    table.write(MORE)
    table.write(HOUSES.with_columns(on=0), mode="overwrite")
    assert answers(plan.release()) == answers(plan.release()) == [2, 1]
    again = plan_of(table.scan())
    assert answers(again.release()) == [0, 0]
    first, last = plan.certificate.sources, again.certificate.sources
    assert [one.kind for one in (*first, *last)] == [table.kind] * 2
    assert first[0].version == str(table.versions()[0])
    assert last[0].version == str(table.versions()[-1])


def test_an_older_version_may_be_named(table):
    """Rows of an earlier version are read by its number; one that the table never had is refused."""
    table.write(MORE)
    first, second = table.versions()
    assert table.scan(first).collect().height == 4
    assert table.scan(second).collect().height == table.scan().collect().height == 6
    with pytest.raises(pf.UsageError, match=f"has no (version|snapshot) {second + 1}"):
        table.scan(second + 1)


def test_a_certificate_says_the_version_and_is_told_from_others_without_it(table):
    """The version is kept and shown; it is no fact that noise rests on, so a retry may read a newer one."""
    certificate = plan_of(table.scan()).certificate
    stored = json.loads(certificate.to_json())
    assert stored["sources"] == [{"kind": table.kind, "version": str(table.versions()[0])}]
    assert pf.Certificate.from_json(certificate.to_json()) == certificate
    assert (
        f"{table.kind} table, version {table.versions()[0]}" in dict(certificate.rows())["source"]
    )
    table.write(HOUSES, mode="overwrite")
    newer = plan_of(table.scan()).certificate
    assert newer.sources != certificate.sources
    assert newer.digest == certificate.digest
    assert "sources" not in json.loads(plan_of(HOUSES).certificate.to_json())


def test_whatever_is_made_of_a_scan_keeps_its_version(table):
    """Steps between the scan and protect, joins too, leave the version in the plan; it costs no column."""
    scan = table.scan()
    assert scan.collect_schema().names() == HOUSES.columns
    assert "pufferflow" not in scan.explain()
    made = (
        scan.with_columns(pl.col("on").cast(pl.Int8))
        .filter(pl.col("house") > 0)
        .join(table.scan(), on=["house", "day"])
    )
    found = pf.protect(
        made, pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent())
    ).request.engine.versions
    assert [one.version for one in found] == [str(table.versions()[0])]


def test_files_that_were_cleaned_up_are_found_out_before_anything_is_charged(table, tmp_path):
    """A version without its files is refused when it is scanned, and in a release before the account pays."""
    plan = plan_of(table.scan())
    (old,) = table.versions()
    table.write(MORE, mode="overwrite")
    table.clean()
    with pytest.raises(
        pf.SourceError, match=f"Version {old} of the {table.kind} table cannot be read whole"
    ) as caught:
        table.scan(old)
    assert "parquet" not in str(caught.value)
    with pf.Ledger(str(tmp_path / "ledger.db")) as ledger:
        account = ledger.open("houses", plan.request.scenario, limit=pf.Pure(1e7))
        with pytest.raises(pf.SourceError):
            plan.release(account)
        assert not account.history()


def test_a_release_that_stopped_is_completed_from_a_newer_version(table, tmp_path):
    """What is paid for stays paid, although the version that was planned with is gone."""
    plan = plan_of(table.scan(), pf.Independent())
    table.write(HOUSES, mode="overwrite")
    table.clean()
    with pf.Ledger(str(tmp_path / "ledger.db")) as ledger:
        account = ledger.open("houses", plan.request.scenario, limit=pf.Pure(1e6))
        with pytest.raises(pf.SourceError):
            plan.release(account, "monday")
        again = plan_of(table.scan(), pf.Independent())
        assert answers(again.release(account, "monday")) == [2, 1]
        assert account.spent().epsilon == pytest.approx(1e6)


def test_a_table_that_is_not_there(table, tmp_path):
    """A missing table is a failed source, which may come later."""
    from pufferflow_connectors.sources import delta, iceberg

    with pytest.raises(pf.SourceError, match="There is no Delta table"):
        delta.scan(tmp_path / "nowhere")
    if table.kind == "iceberg":
        for name in ("energy.flats", "nowhere.houses"):
            with pytest.raises(pf.SourceError, match=f"no Iceberg table '{name}'"):
                iceberg.scan(name, options=table.options)


def test_a_table_that_nothing_was_written_to(tmp_path):
    """An Iceberg table without a snapshot has types, and no rows, also when some are written later."""
    pytest.importorskip("pyiceberg")
    table = Iceberg(tmp_path)
    scan = table.scan()
    table.write(HOUSES)
    assert scan.collect().is_empty()
    assert scan.collect_schema() == HOUSES.schema


def test_tables_of_pyiceberg(tmp_path):
    """A table that is at hand is read as it is now in its catalog; one without a catalog as its metadata have it."""
    pytest.importorskip("pyiceberg")
    from pufferflow_connectors.sources import iceberg
    from pyiceberg.table import StaticTable

    table = Iceberg(tmp_path)
    held = table.catalog.load_table("energy.houses")
    table.write(HOUSES)
    first = iceberg.scan(held)
    static = StaticTable.from_metadata(table.table.metadata_location)
    table.write(MORE)
    assert first.collect().height == iceberg.scan(static).collect().height == 4
    assert iceberg.scan(held).collect().height == 6


def test_a_prior_of_the_same_table(table, tmp_path):
    """Another version of the private table is no public reference; another table is."""
    table.write(MORE)
    versions = table.versions()
    fit = pf.MarkovChain.fit
    own = fit(
        pf.Reference("mine", table.scan(versions[0])),
        "on",
        within="house",
        order_by="hour",
        domain=[0, 1],
    )
    other = Delta(tmp_path / "public")
    other.write(HOUSES)
    public = fit(
        pf.Reference("a survey", other.scan()), "on", within="house", order_by="hour", domain=[0, 1]
    )
    plain = fit(
        pf.Reference("plain", pl.scan_delta(other.path)),
        "on",
        within="house",
        order_by="hour",
        domain=[0, 1],
    )
    for prior, refused in ((own, True), (public, False), (plain, False)):
        scenario = pf.Scenario(
            pf.Secret("on", domain=[0, 1]), prior, order_by="hour", within="house", public=["day"]
        )
        if refused:
            with pytest.raises(
                pf.UsageError, match="comes from the same file as the private frame"
            ):
                pf.protect(table.scan(versions[1]), scenario)
        else:
            assert pf.protect(table.scan(versions[1]), scenario)


def test_a_prior_of_one_of_several_tables(table, tmp_path):
    """The private frame joins two tables that have the same version: neither is a public reference."""
    folder = tmp_path / "second"
    folder.mkdir()
    other = type(table)(folder)
    other.write(HOUSES)
    joined = table.scan().join(
        other.scan().select("house", "hour"), on=["house", "hour"], how="semi"
    )
    for source in (table, other):
        reference = pf.Reference("mine", source.scan())
        prior = pf.MarkovChain.fit(reference, "on", within="house", order_by="hour", domain=[0, 1])
        scenario = pf.Scenario(
            pf.Secret("on", domain=[0, 1]), prior, order_by="hour", within="house", public=["day"]
        )
        with pytest.raises(pf.UsageError, match="comes from the same file as the private frame"):
            pf.protect(joined, scenario)


JOB = """
name = "houses"
build = "own.py:build"
[guarantee]
epsilon = 1.0
[ledger]
account = "houses"
limit = { epsilon = 2.0 }
[sink]
report = false
[source]
"""
PYTHON = """
import pufferflow as pf
scenario = pf.Scenario(pf.Secret("on", domain=[0, 1]), pf.Independent(), public=["day"])
def build(frame, period):
    return pf.protect(frame, scenario).group_by("day").private_sum("on")
"""


def test_a_job_reads_a_version(table, tmp_path):
    """`[source] kind` names the table's format; the certificate that is published names the version."""
    (tmp_path / "own.py").write_text(PYTHON)
    (tmp_path / "job.toml").write_text(JOB + table.keys)
    job = pf.Job.read(tmp_path / "job.toml")
    first = job.run("2026-11-20")
    table.write(MORE)
    second, again = job.run("2026-11-21"), job.run("2026-11-20")
    versions = [str(version) for version in table.versions()]
    assert [one.release.certificate.sources[0].version for one in (first, second)] == versions
    assert again.state == "kept"
    assert (
        json.loads((first.folder / "certificate.json").read_text())["sources"][0]["version"]
        == versions[0]
    )


def test_keys_of_a_job_file(tmp_path):
    """Unknown kinds and misspelt keys are answered with the right ones; editors know all kinds."""
    (tmp_path / "own.py").write_text(PYTHON)
    for keys, told in (
        ('kind = "detla"\npath = "houses"', "There is no source 'detla'"),
        ("kind = 3", "The kind is not a text"),
        ('kind = "fils"\npath = "houses"', "try: 'files'"),
        ('kind = "files"\npth = "houses"', "unknown key 'pth' in [source]"),
        ('kind = "delta"\npth = "houses"', "unknown key 'pth' in [source]"),
        ('kind = "delta"\npath = "ftp://houses"', "'ftp:', which Delta does not read"),
        ('kind = "delta"\npath = "houses"\nversion = -1', "source.version"),
        ('kind = "iceberg"\ntable = "a.{day}"', "The table has {day}"),
    ):
        (tmp_path / "job.toml").write_text(JOB + keys)
        with pytest.raises(pf.UsageError) as caught:
            pf.Job.read(tmp_path / "job.toml")
        assert told in str(caught.value)
    kinds = {
        entry["$ref"].rpartition("/")[2]
        for entry in schema()["$defs"]["JobFile"]["properties"]["source"]["anyOf"]
    }
    assert kinds >= {"FileSource", "DeltaSource", "IcebergSource"}


@pytest.mark.slow
def test_a_delta_table_in_an_object_store(tmp_path):
    """Options reach both the table's log and its files, and are not shown."""
    pytest.importorskip("deltalake")
    from pufferflow_connectors.sources.delta import DeltaSource

    HOUSES.write_delta(str(tmp_path / "houses"))
    with object_store.bucket("lake") as bucket:
        for path in (tmp_path / "houses").rglob("*"):
            if path.is_file():
                bucket.client.upload_file(str(path), "lake", str(path.relative_to(tmp_path)))
        source = DeltaSource(path="s3://lake/houses", options=bucket.options)
        scan = source.rows(tmp_path, pf.Period.read("2026-11-20"))
        shutil.rmtree(tmp_path / "houses")
        assert scan.collect().sort("house", "day").equals(HOUSES)
        assert object_store.SECRET not in repr(source) + scan.explain(optimized=False)
        with pytest.raises(pf.SourceError) as caught:
            DeltaSource(
                path="s3://lake/flats",
                options=bucket.options | {"aws_endpoint_url": "http://127.0.0.1:9"},
            ).rows(tmp_path, pf.Period.read("2026-11-20"))
        assert "127.0.0.1" not in str(caught.value)
