"""What the tables must show of a log, by the rules and by brute force: nothing of the code under test is used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ares.annotation import Annotation, Column, Producer, make_segment_id

Row = dict[str, Any]
# An annotation with its position in the log.
Item = tuple[int, Annotation]
_RANKS = {"person": 2, "consensus": 1, "model": 0, "code": 0}
_WEIGHTS = {"essential": 1.0, "important": 0.7, "optional": 0.3, "pitfall": 0.9}
_ORDER = ("caption", "grade", "subtask", "label", "outcome", "guest", "visitor")
_TYPES = {"bool": bool, "int64": int, "float64": float, "string": str}


class Oracle:
    """The rules, applied to all annotations of a log."""

    def __init__(
        self,
        log: Sequence[Annotation],
        producers: Mapping[str, Producer],
        pins: Mapping[str, str],
        successes: Mapping[str, bool | None],
    ) -> None:
        self._producers, self._pins, self._successes = producers, pins, successes
        self._items = list(enumerate(log))

    def episodes(self) -> dict[str, Row]:
        """Values of the columns of annotators that are not empty, by episode."""
        return {key: _without_none(self._episode(key)) for key in self._successes}

    def segments(self) -> dict[str, Row]:
        """Values of the rows of segments that are not empty, by annotation_id."""
        rows = [row for key in self._successes for row in self._segments_of(key)]
        return {row["annotation_id"]: _without_none(row) for row in rows}

    def _producer(self, item: Item) -> Producer:
        return self._producers[item[1].maker_id]

    def _is_ruling(self, item: Item) -> bool:
        return item[1].part != "" and self._producer(item).kind == "person"

    def _newest(self, episode_id: str) -> list[Item]:
        """The items that count: the newest of each address, candidates left out."""
        by_address: dict[tuple[Any, ...], Item] = {}
        for item in self._items:
            a = item[1]
            span = (a.start_seconds, a.stop_seconds, a.camera)
            by_address[a.subject, a.name, span, a.maker_id, a.part, a.ordinal] = item
        return sorted(
            item
            for item in by_address.values()
            if item[1].episode_id == episode_id
            and item[1].ordinal == 0
            and item[1].subject_kind == self._producer(item).subject_kind
        )

    def _candidates_and_shown(self, episode_id: str) -> tuple[dict[str, list[Item]], dict[str, list[Item]]]:
        candidates: dict[str, list[Item]] = {}
        shown: dict[str, list[Item]] = {}
        for name in _ORDER:
            subjects = {episode_id}
            for item in (item for items in shown.values() for item in items):
                subjects.add(item[1].annotation_id)
                if self._producer(item).fills_segments:
                    subjects.add(_segment_of(item[1]))
            candidates[name] = [
                item
                for item in self._newest(episode_id)
                if self._producer(item).annotator == name and item[1].subject in subjects
            ]
            shown[name] = [item for item in candidates[name] if self._is_chosen(item, candidates[name])]
        return candidates, shown

    def _is_chosen(self, item: Item, candidates: Sequence[Item]) -> bool:
        if self._is_ruling(item):
            return True
        annotator = self._producer(item).annotator
        if annotator in self._pins:
            return item[1].maker_id == self._pins[annotator]
        rivals = [
            rival
            for rival in candidates
            if rival[1].subject == item[1].subject and not self._is_ruling(rival)
        ]
        best = max(rivals, key=lambda rival: (_RANKS[self._producer(rival).kind], rival[0]))
        return best[1].maker_id == item[1].maker_id

    def _valued(self, shown: Mapping[str, Sequence[Item]]) -> list[tuple[Item, Row]]:
        """The shown items in the order in which they fill columns, grades with the rulings of people."""
        rulings: dict[str, list[Item]] = defaultdict(list)
        for item in shown["grade"]:
            if self._is_ruling(item) and cast("list[dict[str, Any]]", item[1].value["rulings"]):
                rulings[item[1].subject].append(item)
        valued: list[tuple[Item, Row]] = []
        for item in sorted(item for items in shown.values() for item in items if not self._is_ruling(item)):
            own = rulings.get(item[1].subject, []) if item[1].value.get("rulings") else []
            valued.append((item, {**item[1].value, **(_corrected(item, own) if own else {})}))
        judged = {
            item[1].subject for item, value in valued if item in shown["grade"] and value.get("rulings")
        }
        for subject, own in rulings.items():
            if subject not in judged:
                value = _corrected(None, own)
                is_accepted = value["acceptable"] is True
                valued.append(
                    (own[-1], value | {"grade": "unsure", "acceptable": None} if is_accepted else value)
                )
        return valued

    def _episode(self, episode_id: str) -> Row:
        candidates, shown = self._candidates_and_shown(episode_id)
        captions = [item for item in shown["caption"] if "caption" in item[1].value]
        subjects = {episode_id, captions[-1][1].annotation_id if captions else ""}
        row: Row = {}
        for item, value in self._valued(shown):
            if item[1].subject in subjects:
                self._fill(row, item, value)
        for name in ("subtask", "label"):
            self._roll_up(row, name, shown[name], {_segment_of(item[1]) for item in shown["subtask"]})
        row["disagreement"] = self._disagreement(candidates)
        row["reviewed"] = (
            any(self._producer(item).kind == "person" for item in self._newest(episode_id)) or None
        )
        row["conflict"] = self._conflict(episode_id, row)
        return row

    def _fill(self, row: Row, item: Item, value: Row) -> None:
        producer = self._producer(item)
        for column in producer.columns:
            if column.name in value and not column.rollup and _fits(value[column.name], column):
                row[column.name] = value[column.name]
        if any(column.needs_current_maker for column in producer.columns):
            row[f"{producer.annotator}_maker"] = producer.maker_id

    def _roll_up(self, row: Row, name: str, items: Sequence[Item], segments: set[str]) -> None:
        in_time = sorted(items, key=lambda item: (item[1].start_seconds, item[1].stop_seconds, item[0]))
        for column in next(
            producer for producer in self._producers.values() if producer.annotator == name
        ).columns:
            of_column = [item for item in in_time if column.name in item[1].value and column.rollup]
            values = [item[1].value[column.name] for item in of_column]
            fitting = [value for value in values if value is not None and _fits(value, column)]
            row[column.name] = _rolled_up(column.rollup, fitting) if fitting else None
            described = {item[1].subject for item in of_column if _states(item[1].value[column.name], column)}
            if name == "label" and not segments <= described:
                # Not every segment is described: only a failure of some decides that not all are done.
                row[column.name] = False if column.rollup == "all" and False in fitting else None
            if column.needs_current_maker and of_column:
                # Of several producers the column names any.
                row[f"{name}_maker"] = sorted({item[1].maker_id for item in of_column})

    def _disagreement(self, candidates: Mapping[str, Sequence[Item]]) -> list[str] | None:
        values: dict[tuple[str, str, float, str], Row] = defaultdict(dict)
        for name, items in candidates.items():
            for item in items:
                if self._is_ruling(item):
                    for ruling in cast("list[dict[str, Any]]", item[1].value["rulings"]):
                        key = (name, item[1].subject, item[1].start_seconds, item[1].part.lower())
                        values[key][item[1].maker_id] = ruling.get("verdict")
                    continue
                for column in self._producer(item).columns:
                    if column.type != "float64" and column.name in item[1].value:
                        key = (name, item[1].subject, item[1].start_seconds, column.name)
                        values[key][item[1].maker_id] = item[1].value[column.name]
        names = {
            key[3]
            for key, by_producer in values.items()
            if len({str(value) for value in by_producer.values()}) > 1
        }
        return sorted(names) or None

    def _conflict(self, episode_id: str, row: Row) -> set[str] | None:
        said = {"source": self._successes[episode_id], "label": row["done"], "outcome": row.get("succeeded")}
        stated = {name: value for name, value in said.items() if value is not None}
        if len(set(stated.values())) < 2:
            return None
        return {f"{name}: {'success' if value else 'failure'}" for name, value in stated.items()}

    def _segments_of(self, episode_id: str) -> list[Row]:
        _, shown = self._candidates_and_shown(episode_id)
        rows: list[Row] = []
        for segment in (*shown["caption"], *shown["subtask"]):
            names = {segment[1].annotation_id, _segment_of(segment[1])}
            row = _segment_row(segment[1])
            for item, value in self._valued(shown):
                # A segmenter's own columns are on its segments; a caption's are on the episode alone.
                is_own = item == segment and self._producer(item).annotator == "subtask"
                if is_own or item[1].subject in names:
                    for column in self._producer(item).columns:
                        if column.name in value and _fits(value[column.name], column):
                            row[column.name] = value[column.name]
                    if any(column.needs_current_maker for column in self._producer(item).columns):
                        row[f"{self._producer(item).annotator}_maker"] = item[1].maker_id
            rows.append(row)
        return rows


def _segment_row(annotation: Annotation) -> Row:
    return {
        "annotation_id": annotation.annotation_id,
        "episode_id": annotation.episode_id,
        "annotator": annotation.name,
        "segment_id": _segment_of(annotation),
        "start_seconds": annotation.start_seconds,
        "stop_seconds": annotation.stop_seconds,
        "camera": annotation.camera,
        "text": annotation.value["text"],
        "maker_id": annotation.maker_id,
    }


def _segment_of(annotation: Annotation) -> str:
    return make_segment_id(annotation.episode_id, annotation.start_seconds, annotation.stop_seconds)


def _states(value: Any, column: Column) -> bool:
    return value is not None and _fits(value, column)


def _fits(value: Any, column: Column) -> bool:
    if value is None:
        return True
    is_of_type = type(value) is _TYPES[column.type] or (column.type == "float64" and type(value) is int)
    return is_of_type and (not column.choices or value in column.choices)


def _corrected(judged: Item | None, corrections: Sequence[Item]) -> Row:
    """The grade by the rulings of a judge and of people, whose rulings replace those of the judge."""
    rulings: dict[str, Row] = {}
    for item in (*([judged] if judged else []), *corrections):
        for ruling in cast("list[Row]", item[1].value["rulings"]):
            rulings[ruling["criterion"]] = ruling
    return grade_of(list(rulings.values()))


def grade_of(rulings: Sequence[Row]) -> Row:
    """The grade that follows from rulings."""
    gates = [r["verdict"] for r in rulings if r["category"] in ("essential", "pitfall")]
    gates = [verdict for verdict in gates if verdict != "NA"]
    if "UNMET" in gates:
        grade, acceptable = "not_acceptable", False
    elif "ERROR" in gates:
        grade, acceptable = "error", None
    elif gates and set(gates) == {"MET"}:
        grade, acceptable = "acceptable", True
    else:
        grade, acceptable = "unsure", None
    weights = {r["criterion"]: _WEIGHTS[r["category"]] for r in rulings if r["verdict"] != "NA"}
    met = sum(weights[r["criterion"]] for r in rulings if r["verdict"] == "MET")
    score = round(met / sum(weights.values()), 6) if weights else None
    return {"grade": grade, "acceptable": acceptable, "grade_score": score, "rulings": list(rulings)}


def _rolled_up(rollup: str, values: Sequence[Any]) -> Any:
    if rollup in ("all", "sum"):
        return all(values) if rollup == "all" else sum(values)
    return sum(values) / len(values) if rollup == "mean" else list(values)


def _without_none(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}
