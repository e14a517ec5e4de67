"""The commands of `ares`: the module of each, its help and examples."""

from __future__ import annotations

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """Where a command is defined, and its help.

    Attributes:
        module: Module with `add_arguments(parser)` and `run(args) -> exit status`. Where something is kept when the
            command is stopped, also with `describe_stop(args) -> str`.
        help: One line for `ares --help`.
        examples: What `ares COMMAND --help` shows at its end.
    """

    module: str
    help: str
    examples: tuple[str, ...] = ()


COMMANDS = {
    "ingest": CommandEntry(
        "app.cli.data.ingest",
        "read datasets into the workspace",
        (
            "ares ingest ~/data/bridge_dataset -w ~/curation",
            "ares ingest s3://datasets/bridge --dataset bridge --limit 100",
            "ares ingest ~/videos --cameras '{episode}_{camera}.mp4' --rate 10",
        ),
    ),
    "check": CommandEntry(
        "app.cli.data.check",
        "check the signals of datasets where they lie",
        (
            "ares check ~/data/bridge_dataset",
            "ares check ~/data --limit 1000 --json",
            "ares check ~/data/so101 --fix ~/data/so101-corrected --dry-run",
        ),
    ),
    "annotate": CommandEntry(
        "app.cli.annotations.annotate",
        "run annotators over the episodes that lack them",
        (
            "ares annotate embed caption grade -w ~/curation",
            "ares annotate caption --model openai:qwen@http://localhost:8000/v1 --dry-run",
            "ares annotate motion --where 'num_steps > 50' --limit 1000",
        ),
    ),
    "search": CommandEntry(
        "app.cli.curation.search",
        "find moments by text, image or episode",
        (
            "ares search 'put the mug on the shelf'",
            "ares search drawer --where 'success' --by captions --output csv",
            "ares search --like 42b13cbc --limit 5",
        ),
    ),
    "show": CommandEntry(
        "app.cli.curation.show",
        "everything known of one episode",
        ("ares show 42b13cbcbaa01293", "ares show 42b1 --json"),
    ),
    "set": CommandEntry(
        "app.cli.curation.set",
        "make, list, show, compare and change frozen sets",
        (
            "ares set create accepted --where 'acceptable AND success'",
            "ares set list --output csv",
            "ares set show accepted@2",
        ),
    ),
    "tag": CommandEntry(
        "app.cli.curation.tag",
        "add, remove and list tags of episodes",
        ("ares tag add blurred 42b13cbcbaa01293", "ares tag remove blurred --set accepted", "ares tag list"),
    ),
    "note": CommandEntry(
        "app.cli.curation.note",
        "write a note to episodes",
        ("ares note 'the gripper slips' 42b13cbcbaa01293", "ares note 'dark' --where 'dataset = 'bridge''"),
    ),
    "view": CommandEntry(
        "app.cli.curation.view",
        "save, list and delete views of the dashboard",
        ("ares view save drawers 'q=open+the+drawer&cut=0.6'", "ares view list", "ares view delete drawers"),
    ),
    "remove": CommandEntry(
        "app.cli.curation.remove",
        "take episodes out of the workspace",
        (
            "ares remove 42b13cbcbaa01293",
            "ares remove --where 'num_steps < 20' --note 'too short'",
            "ares remove --purge --ids withdrawn.txt",
        ),
    ),
    "undo": CommandEntry(
        "app.cli.curation.undo",
        "take back a removal, a tag or a change of a set",
        ("ares undo", "ares undo --list", "ares undo 3"),
    ),
    "use": CommandEntry(
        "app.cli.curation.use",
        "choose the makers whose values fill the columns",
        ("ares use", "ares use caption=42b1 grade=newest"),
    ),
    "export": CommandEntry(
        "app.cli.data.export",
        "write a set as a training dataset",
        ("ares export accepted ~/train/accepted --format lerobot",),
    ),
    "rubric": CommandEntry(
        "app.cli.annotations.rubric",
        "show and check rubrics, and attack their judge",
        (
            "ares rubric show caption",
            "ares rubric check my-rubric.yaml",
            "ares rubric attack --dry-run -w ~/curation",
        ),
    ),
    "models": CommandEntry(
        "app.cli.workspace.models",
        "list the configured models, and whether they are on this machine",
        ("ares models", "ares models --check --json"),
    ),
    "status": CommandEntry(
        "app.cli.workspace.status", "what the workspace holds", ("ares status -w ~/curation --json",)
    ),
    "index": CommandEntry(
        "app.cli.workspace.index",
        "index vectors, so that searches stay fast",
        ("ares index -w ~/curation",),
    ),
    "failures": CommandEntry(
        "app.cli.workspace.failures",
        "list and clear logged failures",
        ("ares failures list --annotator caption", "ares failures clear --reason 'no reply'"),
    ),
    "doctor": CommandEntry(
        "app.cli.workspace.doctor",
        "check the stores against each other, and repair them",
        (
            "ares doctor",
            "ares doctor --repair",
            "ares doctor --relocate /mnt/old=/mnt/new",
            "ares doctor --environment",
        ),
    ),
    "app": CommandEntry(
        "app.cli.serve.app",
        "open the dashboard",
        ("ares app -w ~/curation", "ares app --port 0 --no-browser"),
    ),
    "demo": CommandEntry(
        "app.cli.serve.demo", "the whole job on the sample episodes", ("ares demo --no-serve",)
    ),
    "completion": CommandEntry(
        "app.cli.shell.completion",
        "print the tab completion of a shell",
        ("source <(ares completion bash)", "ares completion fish > ~/.config/fish/completions/ares.fish"),
    ),
}
EXAMPLES = (
    "ares ingest ~/data/bridge_dataset -w ~/curation",
    "ares annotate embed caption grade -w ~/curation",
    "ares search 'put the mug on the shelf' -w ~/curation",
    "ares search --help",
)
