"""Options and commands that an earlier version had, each with what to use in its place."""

from __future__ import annotations

from collections.abc import Mapping

# By command and option; a command alone is gone as a whole.
GONE_OPTIONS: Mapping[str, str] = {
    "ares view": "the dashboard saves, opens and deletes views with the button Views",
    **dict.fromkeys(
        ("ares set create --near", "ares set split --near", "ares set overlap --near"),
        "signals and pixels tell copies, pixels where signals find one or cannot compare",
    ),
    "ares set create --keep": "of copies the best is kept: not mirrored, whole, more pixels, more bytes a pixel, "
    "ingested first",
    "ares annotate --span-unit": "the table says it: start_seconds and stop_seconds, or start_frame and stop_frame",
    "ares annotate --segment.span-unit": "the table says it: start_seconds and stop_seconds, or ..._frame",
    **dict.fromkeys(
        ("ares ingest --data-dir", "ares check --data-dir"),
        "give the folder of a prepared dataset, such as ~/tensorflow_datasets/bridge_dataset/1.0.0",
    ),
    **dict.fromkeys(
        ("ares annotate --scores", "ares annotate --valuation.scores"),
        "Python fills a column from a table: ws.set_values(NAME, frame.set_index('episode_id')['score'])",
    ),
    **dict.fromkeys(
        ("ares annotate --valuer", "ares annotate --valuation.valuer"),
        "valuation is by mutual information; scores of your own are those of an annotator that is a plug-in",
    ),
    **dict.fromkeys(
        ("ares annotate --column", "ares annotate --valuation.column"), "valuation fills episode_value"
    ),
    **dict.fromkeys(("ares annotate --seed", "ares annotate --valuation.seed"), "valuation draws by seed 0"),
    **dict.fromkeys(
        ("ares annotate --calibrate", "ares annotate --grade.calibrate"),
        "48 false texts test a judge once a dataset; how many captions are true people say: `ares review measure`",
    ),
    "ares rubric attack --per-kind": "an attack is ten batteries of 48 false texts",
    **dict.fromkeys(
        ("ares annotate --subtask-names", "ares annotate --segment.subtask-names"),
        "write the new texts into the table of --spans",
    ),
    **dict.fromkeys(
        ("ares annotate --evaluate", "ares annotate --fit"),
        "people say it: `ares review measure DATASET --question success`",
    ),
    **dict.fromkeys(
        ("ares rubric revise --rounds", "ares rubric revise --noise-floor"),
        "captions are asked for once more, and the report compares them with the former ones",
    ),
    "ares rubric revise --second-judge": "`ares annotate grade --judge SPEC` grades the new captions by another judge",
    **dict.fromkeys(
        ("ares rubric revise --anchors", "ares rubric revise --seed"),
        "a third of the criteria is hidden, always the same of a rubric",
    ),
    "ares rubric compare": "`ares use` pins one of two producers, and `ares review measure DATASET` says how many of "
    "its captions are true",
    "ares review report": "`ares review measure DATASET` and `ares status` say how many accepted captions are true",
    **dict.fromkeys(
        ("ares review create --worth", "ares review create --first"),
        "questions are drawn at random; `--where` or `--set` select what is asked about",
    ),
    "ares check --audit": "`python -m benchmarks.quality --real DATA` plants faults into data of yours",
    "ares check --audit-seed": "`python -m benchmarks.quality --real DATA --seeds A:B` has the seeds",
    "ares check --evidence": "`ares ingest` the data: `ares app` plays each episode with its findings",
    "ares check --github": "the exit status is 1 where there are faults, and --json has the findings",
    "ares check --sarif": "--json has the findings, and --write-baseline keeps those that are known",
    "ares remove --vectors": "in Python `ws.remove_vectors(NAME)` deletes what `ws.add_vectors` has stored",
    "ares export --append": "`ares set union` joins the sets; export that into a new folder",
    "ares export --drop-segments": "`ares set create NAME --segments` makes a set of the spans to keep; export that",
    "ares export --preview": "export a small set (`ares set create NAME --balance dataset --cap 2`), with the same "
    "--plan; `ares ingest` of that folder into a new workspace and `ares app` show it",
    "ares export --write-weights": "weights.csv of an export is its list of weights, and may be edited for --weights",
}
