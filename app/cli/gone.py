"""Options and commands that an earlier version had, and words of other tools, each with what to use in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_IN_FILE = "stands in the file of --options: --write-options FILE writes one"
# Commands, their options that are gone, and what to use; with "-" the command itself is gone.
_GONE = """
set create, set split | near | signals and pixels tell copies, pixels where signals find one or cannot
    compare
set create | keep | of copies the best is kept: not mirrored, whole, more pixels, more bytes a pixel, ingested first
set create | refuted | with --min-precision captions of a refuted judge are left out
set overlap | - | `ares set intersection NEW SET SET` has the episodes of both, and `ares audit duplicates` names copies
set controls | where seed | in Python ws.sets.controls(NAME, where=SQL, seed=N)
set rebuild | sources | name the folders behind the card: `ares set rebuild CARD FOLDER`
set create, tag add, tag remove, note, review create, remove | ids | name the file of ids itself, without an option
tag add, tag remove, note, review create, remove | set | --where selects them: in_set('NAME')
tag add, tag remove, note, review create | dataset | --where selects them: dataset = 'NAME'
tag add, tag remove | search limit min-score | `ares set create NAME --search TEXT` makes a set, and
    --where "in_set('NAME')" selects it
ingest, check | data-dir | give the folder of a prepared dataset, such as ~/tensorflow_datasets/bridge_dataset/1.0.0
ingest, check | follow-links | ARES_FOLLOW_LINKS=1, or follow_links in ares.toml, lets links lead out of a dataset
ingest, annotate | strict | a run goes on after a failure, and its exit status is 1; `--limit 1` tries one episode
ingest | labels trust-answers-of | `ares set rebuild CARD FOLDER -w NEW` makes a workspace with the labels beside it
check | audit | `python -m benchmarks.quality --real DATA` plants faults into data of yours
check | audit-seed | `python -m benchmarks.quality --real DATA --seeds A:B` has the seeds
check | evidence | `ares ingest` the data: `ares app` plays each episode with its findings
check | github | the exit status is 1 where there are faults, and --json has the findings
check | sarif baseline write-baseline | --json has the findings; the answers of two runs can be compared
check | fix fix-format dry-run | `ares fix SOURCE DEST` is a command of its own, with --format and --dry-run
check | instructions | `ares audit instructions` is a command of its own
check | duplicates | `ares audit duplicates` is a command of its own
annotate | per-worker reason text-from phrases dtype attention votes sample
    | {name} {in_file}
annotate | caption.dtype caption.attention caption.per caption.text-from caption.layout caption.camera caption.verbs
    caption.phrases embed.camera embed.sample | {name} {in_file}
annotate | urdf end-effector base-link motion.urdf motion.end-effector motion.base-link | the dataset's own positions
    are measured; a path from joints is computed outside and stored with ws.set_values
annotate | grade.dtype grade.attention grade.per grade.rubric grade.candidates grade.verbs grade.layout
    grade.camera | {name} {in_file}
annotate | judge grade.judge | --model or ARES_JUDGE_MODEL names one judge; several stand in the file of --options
annotate | text-model grade.text-model | the judge itself compares words and reads the slots of sentences
annotate | segment.dtype segment.attention segment.by segment.camera segment.spans success.dtype success.attention
    success.votes success.camera | {name} {in_file}
annotate | combination success.combination | ares show has the parts of each probability: ws.set_values stores your own
annotate | span-unit segment.span-unit | the table says it: start_seconds and stop_seconds, or ..._frame
annotate | scores valuation.scores | Python fills a column from a table:
    ws.set_values(NAME, frame.set_index('episode_id')['score'])
annotate | valuer valuation.valuer | valuation is by mutual information; scores of your own are those of an annotator
    that is a plug-in
annotate | column valuation.column seed valuation.seed | valuation fills episode_value, and draws by seed 0
annotate | calibrate grade.calibrate | 48 false texts test a judge once a dataset; how many captions are true people
    say: `ares review measure`
annotate | subtask-names segment.subtask-names | write the new texts into the table of --spans
annotate | evaluate fit | people say it: `ares review measure DATASET --question success`
rubric check | - | `ares rubric show my-rubric.yaml` reads yours, with its hash
rubric attack | truth | true captions are the instructions with the outcomes; `ares correct` corrects both
rubric attack | dry-run | an attack asks about 480 false texts a dataset, one or two calls each; --budget ends it
rubric revise | dry-run | each refused caption costs one call of the captioner and a grading; --budget ends it
rubric attack | per-kind | an attack is ten batteries of 48 false texts
rubric attack | episodes seed | an attack takes 60 episodes by seed 0; --where selects them
rubric attack, rubric revise | candidates verbs | {name} is read by --options, from a file of `ares annotate grade
    --write-options FILE`
rubric attack, rubric revise | device | CUDA_VISIBLE_DEVICES selects a GPU; empty for the CPU
rubric revise | rounds noise-floor | captions are asked for once more, and the report compares them with the former ones
rubric revise | second-judge | `ares annotate grade --model SPEC` grades the new captions by another judge
rubric revise | anchors seed | a third of the criteria is hidden, always the same of a rubric
rubric revise | limit | --where selects the episodes, and --budget ends a run
rubric revise | captioner | ARES_CAPTION_MODEL names the captioner
review report | - | `ares review measure DATASET` and `ares status` say how many accepted captions are true
review create | worth first | questions are drawn at random; --where selects what is asked about
review create | repeat seed | a tenth of the items is asked twice; in Python `ws.review.create` has repeat and seed
review create | guideline | review_guideline in ares.toml, or ARES_REVIEW_GUIDELINE, names the file of a guideline
review create, review next, review measure, correct, undo | person | ARES_PERSON=NAME says who you are
review export | person | the answers have a column with the person
review export | queue | name the queue behind the file: `ares review export FILE QUEUE`
remove | vectors | in Python `ws.remove_vectors(NAME)` deletes what `ws.add_vectors` has stored
undo | limit | the last 20 are shown, and --json has all
failures list | limit | 50 are shown, and --json has all
failures list, failures accept | reason | name the text itself, without an option
failures list, failures accept | where | name the id of the episode, or another text of the failure
failures clear | - | `ares failures accept` marks failures as known; work that succeeds later leaves the list
models | check | `ares annotate caption --limit 1` asks server and hub, and says in one line what is wrong
status | strict-coverage | --coverage has this exit status
app | export-dir | export_dirs in ares.toml, or ARES_EXPORT_DIRS
app | query-seconds | query_seconds in ares.toml, or ARES_QUERY_SECONDS
app | trusted-proxy | trusted_proxies in ares.toml, or ARES_TRUSTED_PROXIES
export | progress | lerobot computes progress for rabc by its reward model; weights are an option of --options
export | retime segments trim-idle weights strict | {name} {in_file}
export | keep-spans | `ares annotate segment --spans FILE` stores the spans, `ares set create NAME --segments` makes a
    set of them
export | append | `ares set union` joins the sets; export that into a new folder
export | drop-segments | `ares set create NAME --segments` makes a set of the spans to keep; export that
export | preview | export a small set (`ares set create NAME --balance dataset --cap 2`), with the same --plan;
    `ares ingest` of that folder into a new workspace and `ares app` show it
export | write-weights | weights.csv of an export is its list of weights, and may be edited for --options
"""
# Words that people type who know other tools, by the command that they stand behind, and what does it.
_WORDS = """
ares | merge join concat combine | `ares set union NEW SET SET` joins sets; `ares export SET DEST --write-plan FILE`
    plans one dataset of several
ares | delete del rm drop | `ares remove EPISODE_ID` takes episodes out, `ares set delete NAME` a set
ares | list ls datasets episodes | `ares status` lists datasets and sets, `ares search` episodes;
    `ares remove --dataset NAME` takes a dataset out
ares | sets | `ares set list` lists sets
ares | tags | `ares tag list` lists tags
ares show | * | an episode is named by its id: `ares search --where "dataset = 'NAME'"` lists them
ares search, ares failures list | -k -n --k --top-k --num --top | use --limit
ares search, ares annotate, ares set create, ares statistics | --dataset | use --where "dataset = 'NAME'"
ares export | --where --set --dataset --query | `ares set create NAME --where SQL` freezes a set, and
    `ares export NAME DEST --format lerobot` writes it
ares export | --output | the destination stands behind the set: `ares export SET DEST --format lerobot`
ares | info describe summary head | `ares status` is about the workspace, `ares show DATASET` about a dataset
ares | stats stat count hist groupby | `ares statistics task` counts by task; so by robot, day or any column
ares | query filter find select where grep | `ares search TEXT --where SQL` finds episodes
ares | similar nearest | `ares search --like EPISODE_ID` finds episodes like one
ares | import load add read download init new | `ares ingest SOURCE` reads a dataset, and makes the workspace
ares | view serve ui gui dashboard launch open browse visualize viz play watch | `ares app` opens the dashboard
ares | label | `ares annotate caption` asks a model, `ares review next` a person; `ares tag add TAG EPISODE_ID` tags
ares | caption embed grade motion segment success | `ares annotate caption` captions; so do the others
ares | judge score rate evaluate eval | `ares annotate grade` judges captions, `ares annotate success` outcomes
ares | retry | `ares annotate caption --retry-failed` tries again what failed
ares | untag | `ares tag remove TAG EPISODE_ID` takes a tag away
ares | dedupe dedup deduplicate duplicates | `ares audit duplicates` finds copies, `ares set create NAME --dedupe`
    leaves them out
ares | split | `ares set split NAME --train 0.9 --val 0.1` splits a set
ares | create freeze subset sample | `ares set create NAME --where SQL` freezes a set
ares | union rename diff compare | `ares set union NEW SET SET`, `ares set rename NAME NEW`, `ares set diff SET SET`
ares | convert save write push upload train | `ares export SET DEST --format lerobot` writes a training dataset
ares | validate lint verify test quality | `ares check SOURCE` checks signals
ares | repair clean | `ares fix SOURCE DEST` corrects a dataset, `ares doctor --repair` the workspace
ares | restore revert rollback | `ares undo` takes the last action back
ares | history log | `ares undo --list` shows what was done
ares | errors failed | `ares failures list` shows what failed
ares | version | `ares --version` prints it
ares | config settings env | `ares doctor --environment` shows them; settings stand in ares.toml
ares set | ls | `ares set list` lists sets
ares set | rm remove drop | `ares set delete NAME` deletes a set
ares set | new add make freeze | `ares set create NAME --where SQL` freezes a set
ares set | merge join concat | `ares set union NEW SET SET` joins sets
ares set | export | `ares export SET DEST --format lerobot` writes a training dataset
ares tag | ls | `ares tag list` lists tags
ares tag | rm delete | `ares tag remove TAG EPISODE_ID` takes it away
ares review | start answer ask | `ares review next QUEUE` asks
"""


def _read_table(table: str) -> Iterator[list[str]]:
    """The cells of each row of a table; a line that is indented goes on with the row above it."""
    for row in table.replace("\n    ", " ").strip().splitlines():
        yield row.split(" | ")


def _list_gone() -> Iterator[tuple[str, str]]:
    for commands, options, answer in _read_table(_GONE):
        for command in commands.split(", "):
            for option in options.split():
                key = f"ares {command}" if option == "-" else f"ares {command} --{option}"
                name = option.rpartition(".")[2].replace("-", "_")
                yield key, answer.format(name=name, in_file=_IN_FILE)


# By command and option; a command alone is gone as a whole.
GONE_OPTIONS: Mapping[str, str] = dict(_list_gone())

TYPED_WORDS: Mapping[str, str] = {
    f"{command} {word}": answer
    for commands, words, answer in _read_table(_WORDS)
    for command in commands.split(", ")
    for word in words.split()
}
