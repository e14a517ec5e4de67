"""Words that people type who know other tools, or earlier commits: what does their work."""

from __future__ import annotations

from collections.abc import Mapping

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
ares ingest, ares check | --data-dir | give the folder of a prepared dataset: `ares ingest ~/lab/bridge/1.0.0`
ares export | --output | the destination stands behind the set: `ares export SET DEST --format lerobot`
ares | info describe summary head | `ares status` is about the workspace, `ares show DATASET` about a dataset
ares | stats stat count hist groupby | `ares statistics task` counts by task; so by robot, day or any column
ares | query filter find select where grep | `ares search TEXT --where SQL` finds episodes
ares | similar nearest | `ares search --like EPISODE_ID` finds episodes like one
ares | import load add read download init new | `ares ingest SOURCE` reads a dataset, and makes the workspace
ares | view serve ui gui dashboard launch open browse visualize viz play watch | `ares app` opens the dashboard
ares | label | `ares annotate caption` asks a model, `ares review next` a person; `ares tag add TAG EPISODE_ID` tags
ares | caption embed grade motion segment success | `ares annotate caption` captions; so do the others
ares | judge score rate | `ares annotate grade` judges captions, `ares annotate success` outcomes
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
ares | config settings env | `ares doctor` says what is wrong; settings stand in ares.toml
ares set | ls | `ares set list` lists sets
ares set | rm remove drop | `ares set delete NAME` deletes a set
ares set | new add make freeze | `ares set create NAME --where SQL` freezes a set
ares set | merge join concat | `ares set union NEW SET SET` joins sets
ares set | export | `ares export SET DEST --format lerobot` writes a training dataset
ares tag | ls | `ares tag list` lists tags
ares tag | rm delete | `ares tag remove TAG EPISODE_ID` takes it away
ares review | start answer ask | `ares review next QUEUE` asks
"""


# A line that is indented goes on with the row above it.
TYPED_WORDS: Mapping[str, str] = {
    f"{command} {word}": answer
    for row in _WORDS.replace("\n    ", " ").strip().splitlines()
    for commands, words, answer in [row.split(" | ")]
    for command in commands.split(", ")
    for word in words.split()
}
