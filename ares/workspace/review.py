"""Sets of which people's answers certify how many captions are true, and the column that shows it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from ares.curation import CurationSet, Sets, producer_catalog
from ares.episode import Json
from ares.names import check_name
from ares.registry import projections
from ares.rubric import CERTIFIED_COLUMN
from ares.store import InstalledProjections

if TYPE_CHECKING:
    import pyarrow as pa

    from ares.review import Certificate
    from ares.store import AnnotationStore, ProducerCatalog, Stores, Tables


# Kind of the documents with certificates, as `ares.review` writes them.
_CERTIFICATES = "certificates"
_WRITE_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class _ShownState:
    """Of the stores of a workspace what reads answers: a projection is given no more while the log is applied."""

    tables: Tables
    annotations: AnnotationStore


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedSet:
    """A frozen set with its certificate.

    Attributes:
        selection: The set.
        certificate: What people's answers certify of its captions.
        void: Why it does not hold any more; () where it does.
    """

    selection: CurationSet
    certificate: Certificate
    void: tuple[str, ...]

    def describe(self) -> str:
        """One sentence for people."""
        end = f"; VOID: {'; '.join(self.void)}" if self.void else ""
        return f"{self.selection.label}: {self.certificate.describe()}{end}"

    def to_json(self) -> dict[str, Json]:
        """The set's label, the numbers of the certificate, and "void"."""
        return {"set": self.selection.label, **self.certificate.summary(), "void": list(self.void)}


def find_certified_sets(stores: Stores) -> Iterator[CertifiedSet]:
    """Yield the certified sets that are not deleted, by name and version, and whether their certificates hold.

    Args:
        stores: Stores of the workspace.

    Raises:
        StoreError: The log or a table cannot be read.
    """
    from ares.review import certificate_from_json, find_reasons_void

    documents = dict(stores.annotations.find_documents(_CERTIFICATES))
    sets = Sets(stores.annotations)
    for name in sets if documents else ():
        for selection in sets.versions(name):
            document = documents.get(selection.frozen_key)
            if isinstance(document, Mapping):
                certificate = certificate_from_json(document)
                void = find_reasons_void(stores, certificate, sets.ids(selection))
                yield CertifiedSet(selection=selection, certificate=certificate, void=void)


def freeze_certified(stores: Stores, name: str, precision: float, where: str = "") -> CurationSet:
    """Freeze the accepted captions of a filter that people's random answers certify, from the cut they choose on.

    Args:
        stores: Stores of the workspace.
        name: Its name, see `ares.names.check_name`.
        precision: Share of true captions that is to be certified with 95 % confidence, above 0 and below 1.
        where: SQL filter over the episode columns.

    Raises:
        RequestError: The answers do not show it: says how many are missing; or the filter or name is wrong.
    """
    from ares.review import certified_members, certify, keep_certificate

    sets = Sets(stores.annotations)
    check_name("set", name, lambda: sets)
    certificate = certify(stores, precision, where=where)
    recipe: dict[str, Json] = {"where": where, "certified": certificate.summary()}
    members = certified_members(stores, certificate, where)
    selection = sets.create(name, members, recipe)
    keep_certificate(stores, selection.frozen_key, certificate)
    show_certificates(stores)
    return selection


def show_certificates(stores: Stores) -> None:
    """Let the tables show the certificates as they are now, as they do with every change of the log.

    Nothing is done without certificates.

    Args:
        stores: Stores of the workspace.

    Raises:
        StoreError: The tables or the log cannot be read or written.
    """
    if next(stores.annotations.find_documents(_CERTIFICATES), None) is None:
        return
    with stores.write_lock("certificates"):
        InstalledProjections().refresh(
            stores.tables, stores.annotations, producer_catalog(stores), projections.names()
        )


class CertificateProjection:
    """The column with what is certified of each caption; the plug-in `certificates` of `ares.projections`.

    The columns of grades follow it: "certified" stands above what the controls of a judge say, see
    `ares.rubric.GradeProjection`. A certificate that is void shows nothing.
    """

    counted, needed_documents = "", _CERTIFICATES

    def count(self, tables: Tables, annotations: AnnotationStore) -> None:
        """Nothing is counted: the certificates say what they rest on."""

    def refresh(self, tables: Tables, annotations: AnnotationStore, catalog: ProducerCatalog) -> None:
        """Write the certified precision of the captions that show another one, and empty it where none is certified."""
        import pyarrow as pa

        state = cast("Stores", _ShownState(tables, annotations))
        holding = [item for item in find_certified_sets(state) if not item.void]
        # Of several certificates the one counts that certifies most.
        holding.sort(key=lambda item: item.certificate.precision)
        sets = Sets(annotations)
        certified = [
            (item.certificate.precision, pa.array(list(sets.ids(item.selection)), pa.string()))
            for item in holding
        ]
        has_column = CERTIFIED_COLUMN in tables.episodes.columns()
        if not certified and not has_column:
            return
        columns = ["episode_id", *([CERTIFIED_COLUMN] if has_column else [])]
        wrong = [_find_wrong_rows(batch, certified) for batch in tables.episodes.scan(columns)]
        rows = pa.concat_tables(wrong) if wrong else pa.table({})
        for start in range(0, len(rows), _WRITE_ROWS):
            tables.episodes.set_values(rows.slice(start, _WRITE_ROWS))

    def correct(self, value: Mapping[str, Json], rulings: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
        """Rulings change no certificate by themselves: it is void with the next refresh."""
        return {}

    def followed_columns(self, catalog: ProducerCatalog, existing: Collection[str]) -> dict[str, str]:
        """No producer declares the column, so that nothing else accounts for it."""
        return {}


def _find_wrong_rows(batch: pa.RecordBatch, certified: Sequence[tuple[float, pa.Array]]) -> pa.Table:
    """The episodes that do not show what is certified of them, as they should be.

    Args:
        batch: Episodes, with what they show where the table has the column.
        certified: Precision and ids of the members of each certificate, the highest precision last.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = batch["episode_id"]
    expected = pa.nulls(len(ids), pa.float64())
    for precision, members in certified:
        expected = pc.if_else(pc.is_in(ids, value_set=members), precision, expected)
    shown = batch[CERTIFIED_COLUMN] if CERTIFIED_COLUMN in batch.schema.names else pa.nulls(len(ids))
    is_wrong = pc.not_equal(pc.fill_null(shown.cast(pa.float64()), 0.0), pc.fill_null(expected, 0.0))
    return pa.table({"episode_id": ids, CERTIFIED_COLUMN: expected}).filter(is_wrong)
