"""What users of pandas, datasets, FiftyOne and LeRobot write: what it gives, or what the error says to type.

Each line is code, "=>" and what it gives, or "!!" and a part of the message. All that a message says to use is typed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import PIL.Image
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from torch.utils.data import DataLoader

import ares
from ares.errors import AresError
from ares.registry import read_foreign_names
from ares.workspace import Episodes, StoredEpisode

HABITS = {
    "pandas": """
df.head() => view.take(5)
df.tail(2) => view[-2:]
df.shape => (6, len(view.columns))
df.columns["num_steps"], df.dtypes["success"] => ("int64", "bool")
df["num_steps"].mean() => sum(map(len, view)) / 6
df["success"].value_counts().to_dict() => {True: 3, False: 3}
df[df["num_steps"] > 50] => view.where("num_steps > 50")
df[df.num_steps > 50] => view.where("num_steps > 50")
df[~df["success"]] => view.where("NOT success")
df[::2], df[::-1] => ([*view][::2], [*view][::-1])
df[[4, 0]], df[np.array([4, -1])] => ([view[4], view[0]], [view[4], view[-1]])
df[id], df[id[:10]], df[-1] => (view[0], view[0], [*view][-1])
df[[id]], df[view[3:5]], df[[True, *[False] * 5]] => (view[:1], view[3:5], view[:1])
df[pc.greater(view.to_arrow()["num_steps"], 50)] => view.where("num_steps > 50")
df[df.to_pandas()["success"].isin([True])] => view.where("success")
df[np.argsort(df["num_steps"])[:1]] => view.sort("num_steps")[:1]
df[df["instruction"].str.contains("door")] => view.where("instruction LIKE '%door%'")
df[["dataset", "num_steps"]].shape => (6, 2)
df.iloc[0], df.iloc[1:3] => (view[0], view[1:3])
df.loc[id], df.loc[df.success] => (view[0], view.where("success"))
df.at[id, "num_steps"] !! use view[id]
df.query("num_steps > 50 and success") => view.where("num_steps > 50 AND success")
df.sort_values("num_steps", ascending=False) => view.sort("num_steps", descending=True)
df.sample(3, random_state=1) => view.sample(3, seed=1)
df.sample(n=3) => view.sample(3)
df.sample(frac=0.5) !! sample() has no argument 'frac': use view.sample(len(view) // 2); there are: count, seed
df[["task", "success"]].shape, df.groupby("task").size().sum() => ((6, 2), 6)
df.query("task LIKE '%door%'") => view.where("instruction LIKE '%door%'")
df.query("num_steps > 50 and task.str.contains('door')") => view.where("num_steps > 50 AND instruction LIKE '%door%'")
df.loc[df.success, ["task", "length"]].shape, len(df.loc[df["length"] > 50, "task"]) => ((3, 2), 3)
df.nlargest(1, "length")["num_steps"].item(), df.rename(columns={"length": "n"})["n"].sum() => (55, df.num_frames)
df.add_prefix("id").columns[0], df.agg({"length": "max"}).item() => ("idepisode_id", 55)
df.describe(include="all").shape[1], df.dropna(subset=["task"]).shape[0] => (len(view.columns), 6)
df.sort_values("task") => view.sort("instruction")
df.bounds("nope") !! no column 'nope'
df.nlargest(1, "num_steps")["num_steps"].item() => max(map(len, view))
df.describe()["num_steps"]["max"] => max(map(len, view))
df.max()["num_steps"], df.median()["success"] => (max(map(len, view)), 0.5)
df.nunique()["instruction"] => 5
df.drop_duplicates(subset="instruction", keep="first") => view[[0, 1, 3, 4, 5]]
df.isna().sum()["success"] => 0
df.groupby("success")["num_steps"].max().to_dict() => {True: 48, False: 55}
df.groupby("success").size().to_dict() => {True: 3, False: 3}
df.groupby("success").mean()["num_steps"].loc[False] => 55.0
df.groupby("success").count()["key"].to_dict() => {True: 3, False: 3}
df.groupby("dataset").agg(rate=("success", "mean"))["rate"].item() => 3 / 6
df.groupby(["dataset", "success"]).size().tolist() => [3, 3]
{key: len(part) for key, part in df.groupby("success")} => {False: 3, True: 3}
df.info() => None
df.apply(lambda row: row["num_steps"], axis=1).tolist() => view["num_steps"].tolist()
[row["num_steps"] for _, row in df.iterrows()] => view["num_steps"].tolist()
df.set_index("episode_id").loc[id]["num_steps"] => len(ep)
df.to_dict("records")[0]["episode_id"] => id
df.pivot_table(index="success", values="num_steps").shape => (2, 1)
df.plot("num_steps").to_dict()["mark"]["type"] => "bar"
df.__setitem__("score", 1.0) !! use view.set_values('score', 1.0)
df.drop(columns="success").shape, list(df.to_pandas()) => ((6, len(view.columns) - 1), list(view.columns))
df["task"].value_counts().index.name, df.groupby("task").size().index.name => ("task", "task")
df.groupby("task")["length"].max().tolist() => df.groupby("instruction")["num_steps"].max().tolist()
df.groupby("success").agg({"fps": "mean"})["fps"].tolist() => [10.0, 10.0]
pd.crosstab(df["task"], df["success"]).index.name => "task"
df[["task", "instruction"]].columns.tolist() => ["task", "instruction"]
df.sort_values(iter(["success", "num_steps"])) => view.sort("num_steps").sort("success")
df.groupby(iter(["dataset", "success"])).size().tolist() => [3, 3]
df["success"] & df, df & (df["num_steps"] > 50) => (view.where("success"), view.where("num_steps > 50"))
df.sort_values(["success", "num_steps"], ascending=[False, True]) => view.sort("num_steps").sort("success", True)
pd.DataFrame(df)["instruction"].tolist() => [ep.instruction for ep in view]
pd.DataFrame(list(df))["caption" if "caption" in view.columns else "key"].tolist() => [ep.key for ep in view]
"num_steps" in df, id in df, "nothing" in df => (True, True, False)
""",
    "datasets": """
ds.num_rows, ds.column_names, ds.features => (6, list(view.columns), view.columns)
ds[0]["instruction"], ds[-1] => (ep.instruction, view[5])
ds[:2] => view.take(2)
ds["instruction"].tolist() => [ep.instruction for ep in view]
ds.filter(lambda ep: ep["num_steps"] > 50) => view.where("num_steps > 50")
ds.select(range(3)), ds.select([4, 0]) => (view.take(3), view[[4, 0]])
ds.shuffle(seed=0) => view.sample(seed=0)
ds.sort("num_steps", reverse=True) => view.sort("num_steps", descending=True)
ds.skip(4) => view[4:]
ds.unique("success") => [False, True]
ds.select_columns(["num_steps"]).shape => (6, 1)
ds.to_list()[0]["episode_id"] => id
ds.map(lambda ep: ep) !! use view.set_values(
ds.train_test_split(test_size=0.2) !! use ws.sets.split(
ds.push_to_hub("lab/data") !! use ws.export(view,
ds.with_format("torch") !! use ws.torch_dataset(view)
ds.filter(lambda ep, number: number % 2 == 0, with_indices=True) => view[::2]
ds.features["action"] !! use view[0]['action'].shape
ds.remove_columns("task").shape, ds.flatten_indices() => ((6, len(view.columns) - 1), view)
list(ds.remove_columns(ds.column_names)), ds.rename_column("key", "name")["name"].tolist() => ([], [*ds["key"]])
ds.sort(["success", "num_steps"], reverse=[True, False]) => view.sort("num_steps").sort("success", True)
ds.filter(lambda ep: ep["num_steps"] > 50, num_proc=2) => view.where("num_steps > 50")
[len(batch["task"]) for batch in ds.iter(batch_size=4)], ds.shard(num_shards=4, index=1) => ([4, 2], view[1::4])
next(iter(ds))["num_steps"] => len(ep)
ds.features["num_steps"].dtype, ds.remove_columns(["task"]).shape => ("int64", (6, len(view.columns) - 1))
ds.remove_columns(["nope"]) !! no column 'nope'
ds.filter(lambda steps: steps > 50, input_columns="num_steps") => view.where("num_steps > 50")
ds.filter(lambda ep: True, batched=True) !! use view.where('num_steps > 50')
[row["num_steps"] for row in ds] => view["num_steps"].tolist()
""",
    "FiftyOne": """
ds.match("num_steps > 50") => view.where("num_steps > 50")
ds.match(lambda row: row.success) => view.where("success")
ds.match_tags("odd") => view[[1, 2]]
ds.exists("success") => view
ds.sort_by("num_steps", reverse=True) => view.sort("num_steps", descending=True)
ds.sort_values(["success", "num_steps"], ascending=(False, True)) => view.sort("num_steps").sort("success", True)
ds.sort("success").sort(["success", "success"]) => view.sort("success")
ds.limit(3), ds.first(), ds.last() => (view.take(3), view[0], view[-1])
ds.count(), ds.count("success"), ds.std("num_steps") => (6, 6, np.std(view["num_steps"]))
ws.episodes.count_values("success") => {True: 4, False: 4}
ds.evaluate_detections !! use ws.producers() or ws.review
ds.count_values("success"), ds.count_values("tags") => ({True: 3, False: 3}, {"odd": 2, "name": 1})
ds.distinct("success"), ds.bounds("num_steps") => ([False, True], (32, 55))
ds.mean("num_steps"), ds.sum("num_steps") => (view["num_steps"].mean(), sum(map(len, view)))
ds.select([id]), ds.exclude([id]) => (view[[id]], view[1:])
ds.get_field_schema() => view.columns
ds.group_by("success").size().tolist(), ds.quantiles("num_steps", [0, 1]) => ([3, 3], [32.0, 55.0])
ds[:1].concat(ds[1:]), ds.count_sample_tags() => (view, {"odd": 2, "name": 1})
ws.save_view("two", ds[:2]).name, ws.load_saved_view("two"), "two" in ws.list_saved_views() => ("two", view[:2], True)
ws.delete_saved_view("two").kind => "set_delete"
ds.values("num_steps") => view["num_steps"].tolist()
ds.values(["num_steps", "key"]) => [view["num_steps"].tolist(), view["key"].tolist()]
ds.match_tags(["odd", "name"]), ds.match_tags([]), list(ds.exists("success", False)) => (view[:3], [], [])
ds.histogram_values("num_steps", bins=2) => ([2, 4], [32.0, 43.5, 55.0], 0)
sample.field_names => list(view.columns)
ws.match("num_steps > 50").count(), ws.count_values("dataset") => (5, {"metaworld_sawyer": 6, "video": 2})
ds.tag_samples("good") !! use ws.tag('name', view)
ds.delete_samples([id]) !! use ws.remove(view)
ds.save_view("mine") !! use ws.sets.create('mine', view)
ds[:2] + ds[1:3] => view[:3]
sample["instruction"], sample.id, sample.filepath => (ep.instruction, id, ep.source)
sample.tags == ["name"], sample.tags + view[1].tags, hasattr(sample.tags, "append") => (True, ["name", "odd"], False)
sample.caption, sample["notes"] => (None, None)
sample.to_dict() => dict(ep)
sample.get("nothing", 0), "caption" in sample, "nothing" in sample => (0, True, False)
sample.save() !! use ws.tag('name', ep) or ws.correct(ep,
sample.__setitem__("score", 1) !! use ws.set_values('score', {ep.episode_id: 1.0})
setattr(sample, "instruction", "x") !! use ws.correct(ep,
ws.load_dataset("video") !! use ws.datasets
list(ws.datasets), len(ws.datasets["video"]) => (["metaworld_sawyer", "video"], 2)
""",
    "LeRobot": """
ds.num_episodes, ds.num_frames => (6, sum(map(len, view)))
ds.fps, ds.meta.fps, ds[0].fps => (10.0, 10.0, 10.0)
ds[0]["observation.state"].shape, ds[0]["action"].dtype => ((len(ep), 4), np.dtype("float32"))
ds[0]["observation.images.image"].shape => (len(ep), 128, 128, 3)
ds[0]["timestamp"].dtype, ds[0]["task"] => (np.dtype("float64"), ds[0].instruction)
ds[0].state, ds[0].action => (ep.trajectory.state.values, ep.trajectory.action.values)
ws.datasets["video"][0].action.shape => (len(ws.datasets["video"][0]), 0)
len(ds[0]), len(list(ds[0])), ds[0].num_frames => (len(ep), len(ep), len(ep))
[step["action"] for step in ds[0]] => list(ep.action)
ds[0][-1]["seconds"], len(ds[0][2:5]) => (ep["timestamp"][-1], 3)
ds.meta.total_episodes, ds.meta.total_frames, ds.meta.episodes[3]["length"] => (6, ds.num_frames, len(view[3]))
ws.meta.tasks, ds.meta.robot_type => (ws.episodes.unique("task"), view.unique("robot")[0])
steps.fps !! use dataset.rate_hz
steps.num_frames !! use len(dataset)
steps.meta !! dataset.statistics
ds[0].frames[0], len(ds[0].frames) => (ds[0].frames("", [0.0])[0], len(ds[0]))
ds[0].frames[-2:], ds[0].frames["image"].shape => (ds[0].frames()[-2:], (len(ep), 128, 128, 3))
ds[0][3]["observation.images.image"] => ds[0].frames("image", [ds[0]["timestamp"][3]])[0]
ds[0][3]["timestamp"], ds[0][3]["observation.state"], ds[0][3]["task"] => (ep["seconds"][3], ep.state[3], ep.task)
ds[0][3].get("observation.state"), "task" in ds[0][3], ds[0][3].get("none", 5) => (ep.state[3], True, 5)
ds[0].camera_keys => ["observation.images.image", "observation.images.wrist_image"]
ds.episode_data_index["from"][1], ds.episode_data_index["to"][-1] => (len(view[0]), ds.num_frames)
ds.hf_dataset !! use datasets.Dataset(view.to_arrow()) or ws.torch_dataset(view)
ds.camera_keys, set(ws.meta.camera_keys) => (view[0].camera_keys, {key for ep in ws.episodes for key in ep.camera_keys})
""",
    "views": """
view[:2] | view[4:6] => [*view[:2], *view[4:6]]
view - the_set, the_set.members - the_set => (view[3:], [])
the_set.members | list(view.ids()) => view
(view[:3] | view[4:]).where("success") => [ep for ep in [*view[:3], *view[4:]] if ep.success]
(view & view[:5]).sort("num_steps")[0] => min(view[:5], key=len)
len(the_set), ep in the_set, 5 in view, len({view[0], view[0]}) => (3, True, False, 1)
ep.trajectory.to_pandas()[[f"action.{name}" for name in ep.action_names]].to_numpy() => ep.action
""",
    "mistakes": """
df[-7] !! number -7: the view has 6, counted from 0
df["zzz"] !! no episode 'zzz'
df["aaaa"] !! no episode 'aaaa'
df.take(-1) !! a whole number from 0 on: got -1
df.to_arrow([5]) !! name one column, or several
df.groupby(5) !! name one column, or several
df.groupby([]) !! name one column, or several
sample.tags.__setitem__(0, "good") !! use ws.tag('name', ep)
ws.status().num_episodes !! use ws.status().episodes
ws.episodes() !! leave out the ()
view.sort(["success", "num_steps"], [True]) !! one flag, or one for each column: got [True]
ws.tags() !! leave out the ()
ares.Workspace("ws") !! use ares.open('ws')
df[[True, False]] !! 6 episodes
df[["dataset", "nothing"]] !! no column 'nothing'
df.groupby("dataset").agg({"nothing": "mean"}) !! nothing
df.groupby("nothing") !! no column 'nothing'
df.merge(5) !! merge() cannot take these arguments
df.rename(columns={"key": "name"}, inplace=True) !! leave inplace out
ds.nothing_of_the_kind !! there are: columns
ds["num_stps"] !! did you mean 'num_steps'
ds[99] !! the view has 6
ds[None] !! a view takes a number, a slice, an id, a column, a mask, or a list
ds["a":"b"] !! whole numbers
sample["nothing"] !! an episode has no 'nothing': there are: episode_id
sample.failed !! use ep.success
ws.datasets["vido"] !! did you mean 'video'
ds[0][999] !! the episode has
ds[0][1.5] !! an episode takes a column or the number of a step
hit["episode_id"], hit["score"] => (hit.episode_id, hit.score)
hit["nothing"] !! a hit has no field 'nothing': there are: episode_id
ws.search(like=ep, by="state")["episode_id"].tolist() => [hit.episode_id for hit in ws.search(like=ep, by="state")]
hits[99] !! there is no row number 99
hits.value_counts() !! use table.to_pandas().value_counts
ds.push_to_hub("lab/data") !! hf upload
ds.take(5, seed=51) !! use view.sample(5, seed=0)
ds.sort_by_similarity("a drawer", k=5) !! use ws.search('a drawer'
ds.meta.stats !! use ws.torch_dataset(view).statistics
ares.load_dataset("x") !! use ares.open('ws').datasets
ws.create_set("x") !! use ws.sets.create(
ws.sets.create("new", filter="num_steps > 50").name => "new"
ws.delete_dataset("video") !! use ws.remove(dataset='video')
the_set[0], the_set["num_steps"].tolist(), the_set.iloc[1] => (view[0], view["num_steps"].tolist()[:3], view[1])
the_set.where("num_steps > 50"), hit.instruction => (view[:3].where("num_steps > 50"), hit.episode.instruction)
the_set.torch() !! use ws.torch_dataset(the_set)
dict(hit)["episode_id"], [*pd.DataFrame(hits)][-1] => (hit.episode_id, [*hit.keys()][-1])
ws[0] !! use ws.episodes[0]
len(ws) !! use len(ws.episodes)
ws.where("success"), ws.groupby("task").size().sum(), len(ws.take(2)) => (ws.episodes.where("success"), 8, 2)
ws[id] !! use ws.episodes['
view.field_nmes_x !! there are: columns
view.lines_of !! filter, match, query, group_by
ws.reports !! there are: annotate
ws.launch_app(view=view) !! use ares.app(ws)
view.values("key", "caption") !! values() takes 2 positional arguments but 3 were given
ep[0]["observation.images.nope"] !! observation.images.image, observation.images.wrist_image
ep[0]["frame_index"] !! enumerate(ep)
ep["observation.images.nope"] !! observation.images.image, observation.images.wrist_image
ep[0].action !! use step['action']
ws.sets["shrt"] !! did you mean 'short'
ws.sets.get("shrt"), ws.sets.get(5) => (None, None)
ws.sets.short !! use ws.sets['short']
view.wehre !! use view.where
df.style.to_html()[:3] !! use view.to_pandas().style
df.loc[df["success"], 5] !! use view[:5, ['num_steps', 'success']]
df.between(1, 2) !! use view['num_steps'].between
next(iter(DataLoader(ds, batch_size=2))) !! use DataLoader(ws.torch_dataset(view))
the_set.export("exports/x") !! use ws.export(the_set, 'exports/mine', format='lerobot')
ds.stats["action"]["mean"] !! use ws.torch_dataset(view).statistics['action']['mean']
ds.to_lerobot("folder", repo_id="me/x") !! use ws.export(view, 'exports/mine', format='lerobot')
sample.tags.append("good") !! use ws.tag('name', ep)
ws.search("pick", limt=3) !! search() has no argument 'limt': did you mean 'limit'?
ws.export("a", "b", ftps=5) !! export() has no argument 'ftps': did you mean 'fps'?
ws.estimate("caption", modle="hf:x") !! estimate() has no argument 'modle': did you mean 'model'?
ws.ingest("folder", formt="rlds") !! ingest() has no argument 'formt': did you mean 'format'?
view.sort("num_steps", ascending=False) !! did you mean 'descending'?
view.groupby("success").nothing !! there are: columns, views
ws.search(5) !! text is str, got 5
ws.ingest("folder", rate_hz="a") !! rate_hz is float | None, got 'a'
ws.tag("one", ep).count => 1
ep.frames(0.5) !! frames(seconds=0.5)
hasattr(view, "at"), hasattr(ep, "loc"), hasattr(ws, "at"), bool(ws) => (False, False, False, True)
""",
    "values": """
ares.open(b"ws") !! give os.fsdecode
view.where(the_set) !! SQL
ws.annotate(view, "motion", quiet=True) !! named one by one
view.where("num_steps >") !! cannot be read
view.where("success && num_steps > 50") !! unexpected '&'; write AND
view & view.to_pandas() !! got a DataFrame; give for example df
ws.search(image=np.zeros((4, 4))) !! an image is a path, a PIL image, or an array
view.where() !! filter
view.sample(2, seed="a") !! seed
view.where("caption = 'a'").take(5) !! `ares annotate caption` makes it
(view.set_values("typed", 1.5), view.set_values("typed", "a")) !! numbers
(view.set_values("whole", 1), view.set_values("whole", 1.5)) !! whole numbers
view.set_values("num_steps", 1) !! another name
view.set_values("My score", 1) !! small letters
ws.set_values("new", {"nothing": 1}) !! no episode
ws.set_values("new", 5) !! {id: 0.5}
ws.set_values("new", {id: [1]}) !! numbers or texts
(ws.set_values("a", dict(zip(view["episode_id"], range(6)))), view["a"].tolist())[1] => [*range(6)]
(ws.set_values("b", view.to_pandas().set_index("episode_id")["success"]), [*view["b"]])[1] => [*view["success"]]
ws.set_values("new", view["num_steps"]) !! an episode is given by its id
ws.set_values("new", view.to_pandas()) !! dict(zip(frame
view.set_values("new", float("inf")) !! finite
view.set_values("new", [1, 2]) !! 6 episodes
view.where("in_set('shrt')") !! did you mean 'short'
view.where("in_set(dataset)") !! in quotes
view.where("in_set()") !! takes name
view.where("reviewed(1)") !! takes nothing
len(view.where(" OR ".join(f"in_set('{ws.sets.create(f's{n}', ep).name}')" for n in range(5)))) !! at most 4
ws.annotate(lambda episode: 1, quiet=True) !! def my_score
ws.annotate(object_of, columns={"num_steps": int}, quiet=True) !! another name
ws.annotate(object_of, quiet=True) !! the types are
ws.annotate(object_of, columns={"sure": float}, engine="ray", quiet=True) !! leave it out
ws.search(like=ep, by="frames", space="none") !! there are
""",
}


# It wants a server, a model, or one layout of all episodes.
_NOT_TYPED = ("ares.app(ws)", "ws.annotate('embed'", "ws.torch_dataset(ws.episodes")
LIBRARIES = ("pandas", "datasets", "FiftyOne", "LeRobot")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, demo_samples: Path) -> Path:
    """A folder with a workspace of six episodes of RLDS and two videos, and with what it was read from."""
    folder = tmp_path_factory.mktemp("foreign")
    shutil.copytree(demo_samples / "rlds", folder / "folder")
    with ares.open(folder / "ws", create=True) as ws:
        ws.ingest(folder / "folder", limit=6, quiet=True)
        ws.ingest(demo_samples / "video", limit=2, quiet=True)
        ws.annotate("motion", quiet=True)
    return folder


@pytest.fixture
def typed(template: Path, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What stands in the lines; two of the episodes have a tag."""
    folder = shutil.copytree(template, tmp_path / "foreign")
    with ares.open(folder / "ws") as ws, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        view = ws.datasets["metaworld_sawyer"]
        ws.tag("odd", view[1:3])
        ws.tag("name", view[:1])
        names: dict[str, Any] = {"ws": ws, "view": view, "df": view, "ds": view, "other": view[:2]}
        names |= {"ep": view[0], "sample": view[0], "id": view[0].episode_id, "np": np, "pd": pd}
        names |= {"ares": ares, "pc": pc, "PIL": PIL, "DataLoader": DataLoader}
        names |= {"step": view[0][0], "object_of": object_of, "steps": ws.torch_dataset(view, cameras=[])}
        names["dataset"] = names["steps"]
        names |= {"the_set": ws.sets.create("short", view[:3]), "duckdb": duckdb}
        names |= {"table": ws.search("door", by="captions")}
        names |= {"hits": names["table"], "hit": names["table"][0]}
        for name in ("mine", "name"):
            ws.sets.create(name, view)
        libraries = {"polars": "DataFrame", "datasets": "Dataset"}
        yield names | {name: SimpleNamespace(**{kind: pa.table}) for name, kind in libraries.items()}


def object_of(episode: StoredEpisode) -> object:
    """What no column can have."""
    return object()


def _plain(value: object) -> object:
    """A value as plain ones of Python, which can be compared."""
    if isinstance(value, Episodes):
        return list(value.ids())
    if isinstance(value, StoredEpisode):
        return value.episode_id
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _type_what_is_advised(message: str, typed: dict[str, Any]) -> None:
    """Raises where it cannot be typed."""
    for form in message.partition(": use ")[2].split(" or "):
        form = form.partition("; ")[0].removesuffix("(...)")
        if form and not form.startswith(_NOT_TYPED):
            shutil.rmtree("exports", ignore_errors=True)
            if form.startswith("ws.undo"):
                typed["ws"].tag("odd", typed["ep"])
            eval(form, typed)
            if form.startswith(("ws.remove", "ws.tag")):
                typed["ws"].undo()
            if form.startswith("ws.sets.delete"):
                typed["ws"].sets.create("name", typed["view"])
            if form.startswith("ws.sets.rename"):
                typed["ws"].sets.rename("other", "short")


@pytest.mark.parametrize("library", HABITS)
def test_a_line_of_another_library_gives_what_it_says_or_what_to_type(
    typed: dict[str, Any], library: str
) -> None:
    wrong = list[tuple[str, object]]()
    for line in HABITS[library].strip().splitlines():
        code, is_value, expected = line.partition(" => ")
        code, _, words = (code, "", "") if is_value else line.partition(" !! ")
        try:
            given: object = eval(code, typed)
        except AresError as error:
            given = f"{error}"
            is_python_error = isinstance(error, AttributeError | LookupError | TypeError)
            if (
                is_value
                or words not in given
                or "\n" in given
                or not (is_python_error or library == "values")
            ):
                wrong.append((line, given))
            _type_what_is_advised(given if library != "values" else "", typed)
        else:
            if not is_value or _plain(given) != _plain(eval(expected, typed)):
                wrong.append((line, _plain(given)))
    assert not wrong


def test_at_most_a_fifth_of_a_hundred_lines_is_refused() -> None:
    lines = [line for name in LIBRARIES for line in HABITS[name].strip().splitlines()]
    assert len(lines) >= 100 and sum(" !! " in line for line in lines) <= 0.2 * len(lines)


@pytest.mark.nightly
@pytest.mark.parametrize("called", ["view", "ep", "ws", "ws.sets", "table", "the_set", "hit"])
def test_every_foreign_name_works_or_says_what_can_be_typed(typed: dict[str, Any], called: str) -> None:
    thing = eval(called, typed)
    typed_names = {name.replace("*", "xyz") for part in read_foreign_names().values() for name in part}
    for name in sorted(filter(str.isidentifier, typed_names)):
        if name.startswith("__") or hasattr(thing, name):
            continue
        with pytest.raises(AttributeError) as refused:
            getattr(thing, name)
        assert isinstance(refused.value, AresError) and refused.value.detail, name
        _type_what_is_advised(str(refused.value), typed)
