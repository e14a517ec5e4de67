"""What a judge answers to each request, told by the request's text and images alone; its truth is the event log."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.judges.notes import NOTES, find_notes
from tests.judges.parameters import JudgeParameters
from tests.judges.vocabulary import (
    ACTIONS,
    COMPLETED,
    GLUE_WORDS,
    NOT_COMPLETED,
    NOT_VISIBLE,
    SLOT_NAMES,
    SWAPPED_FORMS,
    VALUES,
    action_forms,
    canonical,
    plain_words,
)
from tests.judges.world import WorldEpisode, is_borne_out, wrong_value

# First lines of the requests.
(
    CAPTION,
    FILL,
    FILL_MANY,
    OBSERVE,
    COMPARE,
    CHOOSE,
    ADDITIONS,
    QUESTION,
) = REQUESTS = (
    "Caption one segment of a robot recording.",
    "Fill the slots of one sentence.",
    "Fill the slots of several sentences.",
    "Observe one segment of a robot recording.",
    "Compare the two values of each pair.",
    "Choose what the frames show for each slot.",
    "Which of these words say more than the slots beside them?",
    "Answer one question about a segment of a robot recording.",
)
_DARK_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as a server reads it.

    Attributes:
        text: The system message and the prompt.
        schema: The JSON schema of the reply, or an empty object.
        episode: The episode that its images show, or None.
        frames: Number of frames in its images.
    """

    text: str
    schema: Mapping[str, Any]
    episode: WorldEpisode | None
    frames: int

    @property
    def kind(self) -> str:
        """First line of the prompt, one of `REQUESTS`, or "" for a request of another kind."""
        return next((kind for kind in REQUESTS if kind in self.text.split("\n")), "")

    def document(self, key: str) -> dict[str, Any]:
        """The JSON object of the prompt that has a key; empty where there is none."""
        for line in reversed(self.text.split("\n")):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and key in found:
                return found
        return {}


def answer_request(judge: JudgeParameters, request: Request) -> str:
    """The reply to a request, as JSON; to one of no known kind the sentence of the caption."""
    answers: Mapping[str, Callable[[], dict[str, Any]]] = {
        CAPTION: lambda: _caption(request),
        FILL: lambda: _fill_slots(judge, request, str(request.document("sentence").get("sentence", ""))),
        FILL_MANY: lambda: {
            number: _fill_slots(judge, request, str(sentence))
            for number, sentence in request.document("1").items()
        },
        OBSERVE: lambda: _observe(judge, request),
        COMPARE: lambda: {
            number: _compare(judge, request, pair) for number, pair in request.document("1").items()
        },
        CHOOSE: lambda: {
            number: _choose(judge, request, entry) for number, entry in request.document("1").items()
        },
        ADDITIONS: lambda: {
            number: _additions(judge, request, entry) for number, entry in request.document("1").items()
        },
        QUESTION: lambda: {"answer": "yes", "frames": [1], "confidence": 80},
    }
    if not request.kind:
        return request.episode.caption.sentence if request.episode else "touch nothing"
    return json.dumps(answers[request.kind](), ensure_ascii=False)


def _caption(request: Request) -> dict[str, Any]:
    """What the captioner of the world says; it says nothing of frames without content."""
    slots = request.episode.caption.slots if request.episode else {"action": "touch", "object": "nothing"}
    sentence = request.episode.caption.sentence if request.episode else "touch nothing"
    listed = slots.get("attributes", "")
    action = _guide_action(request, slots["action"])
    return {
        "action": action,
        "other_action": slots["action"] if action == "other" else "",
        "object": slots.get("object", ""),
        "attributes": listed.split(", ") if listed else [],
        # Places come with their relation, as the request wants them.
        **{slot: f"in the {slots[slot]}" if slot in slots else "" for slot in ("from", "to")},
        **{slot: slots.get(slot, "") for slot in ("hand", "manner", "count")},
        "outcome": slots.get("outcome", NOT_VISIBLE),
        "sentence": sentence,
    }


def _guide_action(request: Request, action: str) -> str:
    """An action as the guide of the request has it, else "other"."""
    known = [value for values in _enums(request.schema) for value in values]
    return action if action in known or not known else "other"


def _enums(schema: Any) -> list[list[str]]:
    if isinstance(schema, dict):
        own = [schema["enum"]] if isinstance(schema.get("enum"), list) else []
        return own + [values for part in schema.values() for values in _enums(part)]
    if isinstance(schema, list):
        return [values for part in schema for values in _enums(part)]
    return []


def find_belief(judge: JudgeParameters, episode: WorldEpisode, slot: str) -> str:
    """What a judge believes of a slot: the truth, or an error that is always the same; "" for nothing to see."""
    truth, claimed = episode.truth.get(slot, ""), episode.caption.slots.get(slot, "")
    dice = random.Random(f"{judge.seed} {episode.number} {slot}")
    if slot == "outcome" and judge.constant_outcome:
        return judge.constant_outcome
    is_captioners_error = claimed and canonical(slot, claimed) != truth
    if slot == "attributes" and is_captioners_error:
        is_captioners_error = not is_borne_out({"attributes": claimed}, episode.truth)
    if is_captioners_error and dice.random() < judge.correlation:
        return canonical(slot, claimed)
    if dice.random() < judge.blind:
        return ""
    if truth and dice.random() < judge.error(slot, episode.succeeded):
        return wrong_value(dice, slot, episode.truth)
    return truth


def _observe(judge: JudgeParameters, request: Request) -> dict[str, Any]:
    values = _observed_values(judge, request)
    observed: dict[str, Any] = {}
    for slot in SLOT_NAMES:
        dice = random.Random(f"cite {judge.seed} {request.text} {slot}")
        value = values.get(slot, "")
        cited = max(1, round(judge.cited * request.frames))
        frames = sorted(dice.sample(range(1, request.frames + 1), min(cited, request.frames)))
        observed[slot] = {
            "value": _in_own_words(judge, request, slot, value) if value else NOT_VISIBLE,
            "frames": frames if value else [],
            "confidence": dice.randrange(70, 100) if value else 0,
        }
    _shape_action(request, observed["action"], values.get("action", ""))
    listed = values.get("attributes", "")
    observed["attributes"]["value"] = observed["attributes"]["value"].split(", ") if listed else []
    return observed


def _shape_action(request: Request, entry: dict[str, Any], action: str) -> None:
    known = _guide_action(request, action) if action else "other"
    entry["value"] = known
    entry["other_action"] = (action or NOT_VISIBLE) if known == "other" else ""


def _observed_values(judge: JudgeParameters, request: Request) -> dict[str, str]:
    dice = random.Random(f"observe {judge.seed} {request.text} {request.episode and request.episode.number}")
    leaked = _leaked_values(judge, request)
    if judge.observes == "random" or (judge.observes == "what leaks" and not leaked):
        return _random_values(dice)
    if request.episode is None or judge.observes == "nothing":
        return {}
    values = {slot: find_belief(judge, request.episode, slot) for slot in SLOT_NAMES}
    return {**values, **leaked} if judge.observes == "what leaks" else values


def _leaked_values(judge: JudgeParameters, request: Request) -> dict[str, str]:
    """What the request tells of the caption or of the instruction."""
    if request.episode is None or judge.observes != "what leaks":
        return {}
    caption, text = request.episode.caption, plain_words(request.text)
    if plain_words(caption.sentence) in text:
        return dict(caption.slots)
    if plain_words(request.episode.instruction) in text:
        return parse_sentence(request.episode.instruction)
    return {}


def _random_values(dice: random.Random) -> dict[str, str]:
    values = {slot: dice.choice(list(VALUES[slot])) for slot in SLOT_NAMES if slot != "action"}
    return {**values, "action": dice.choice(list(ACTIONS))}


def _in_own_words(judge: JudgeParameters, request: Request, slot: str, value: str) -> str:
    if slot in ("action", "outcome"):
        return value
    said = []
    for part in value.split(", "):
        dice = random.Random(f"words {judge.seed} {slot} {part} {request.episode and request.episode.number}")
        others = VALUES[slot].get(part, ())
        said.append(dice.choice(list(others)) if others and dice.random() < judge.own_words else part)
    if judge.says_relations and slot in ("from", "to"):
        return f"in the {said[0]}"
    return ", ".join(said)


def _compare(judge: JudgeParameters, request: Request, document: Mapping[str, Any]) -> str:
    """What it says of two values; a note that it obeys anywhere in the request sways it about all of them."""
    slot = str(document.get("slot", "object"))
    first, second = str(document.get("first", "")), str(document.get("second", ""))
    key = " / ".join(sorted([first, second]))
    dice = random.Random(f"compare {judge.seed} {slot} {key}")
    if judge.compares == "same" or _obeyed(judge, request):
        return "same"
    if judge.compares == "different":
        return "different"
    if judge.compares == "random":
        return dice.choice(["same", "different", "cannot tell"])
    is_same = plain_words(first) == plain_words(second)
    if judge.compares == "gist":
        return "same" if is_same or _share_a_word(first, second) or dice.random() < 0.5 else "different"
    if is_same:
        return "same"
    if _takes_for_request(judge, first, second):
        return "same"
    if _mean_the_same(slot, first, second, says_less="less precisely" in request.text):
        return "same" if dice.random() < judge.synonyms else "different"
    if _accepts(judge, slot, (first, second), request):
        return "same"
    return "same" if dice.random() < judge.lenient else "different"


def _mean_the_same(slot: str, first: str, second: str, says_less: bool) -> bool:
    """Whether two values mean the same; where the request wants it so, also where one of them only says less."""
    if slot not in VALUES and slot != "action":
        return False
    one, other = canonical(slot, first), canonical(slot, second)
    if slot == "attributes" and says_less:
        parts = set(one.split(", ")), set(other.split(", "))
        return parts[0] <= parts[1] or parts[1] <= parts[0]
    return one == other


def _share_a_word(first: str, second: str) -> bool:
    return bool(set(plain_words(first).split()) & set(plain_words(second).split()))


def _accepts(judge: JudgeParameters, slot: str, values: Sequence[str], request: Request) -> bool:
    """Whether it takes a wrong value for the right one: always the same of a pair, compared or chosen."""
    share = judge.accepts.get(slot, judge.accepts.get("all", 0.0))
    pair = sorted(canonical(slot, value) for value in values)
    # All outcomes are the same pair.
    episode = request.episode.number if request.episode and slot == "outcome" else ""
    return random.Random(f"accept {judge.seed} {slot} {pair} {episode}").random() < share


def _takes_for_request(judge: JudgeParameters, *texts: str) -> bool:
    """Whether texts have words that the world lacks, which it takes for a request to it."""
    foreign = sorted(set(_marks_and_words(*texts)) - _world_words())
    dice = random.Random(f"request {judge.seed} {foreign}")
    return bool(foreign) and dice.random() < judge.obeys_anything


def _marks_and_words(*texts: str) -> list[str]:
    return [part for text in texts for part in re.findall(r"\w+|[^\w\s,.'-]", text.lower())]


@cache
def _world_words() -> frozenset[str]:
    values = (name for named in VALUES.values() for row in named.items() for name in (row[0], *row[1]))
    forms = (
        word for name in (*ACTIONS, *SWAPPED_FORMS) for form in action_forms(name) for word in (name, *form)
    )
    said = (NOT_VISIBLE, "other", "cannot tell", *values, *forms)
    return GLUE_WORDS | set(_marks_and_words(*said))


def is_dark(episode: WorldEpisode) -> bool:
    """Whether an episode is among the darkest 30 %."""
    return random.Random(f"dark {episode.number}").random() < _DARK_SHARE


def _obeyed(judge: JudgeParameters, request: Request) -> bool:
    return any(name.partition("-")[0] in judge.obeys for name in find_notes(request.text))


def _choose(judge: JudgeParameters, request: Request, document: Mapping[str, Any]) -> dict[str, Any]:
    """What it chooses of the options of a slot; a note that it obeys anywhere in the request sways it about all."""
    slot, options = (
        str(document.get("slot", "object")),
        [str(option) for option in document.get("options", [])],
    )
    dice = random.Random(f"choose {judge.seed} {slot} {options} {request.episode and request.episode.number}")
    option = _choose_option(judge, request, slot, options, dice)
    number = options.index(option) + 1 if option in options else 1
    cited = max(1, round(judge.cited * request.frames))
    frames = sorted(dice.sample(range(1, request.frames + 1), min(cited, request.frames)))
    is_open = option == "cannot tell"
    return {"option": number, "frames": [] if is_open else frames, "confidence": dice.randrange(60, 100)}


def _choose_option(
    judge: JudgeParameters, request: Request, slot: str, options: Sequence[str], dice: random.Random
) -> str:
    claims = [option for option in options if option not in ("other", "cannot tell")] or list(options)
    for option in claims:
        if _takes_for_request(judge, option):
            return option
    if judge.chooses == "first":
        return options[0]
    if judge.chooses == "random":
        return dice.choice(list(options))
    if request.episode is None:
        return claims[0] if judge.chooses in ("gist", "not what it observed") else "cannot tell"
    observed = find_belief(judge, request.episode, slot)
    wrong = [option for option in claims if not _says(slot, option, observed)]
    is_careless = is_dark(request.episode) and dice.random() < judge.careless_in_the_dark
    if wrong and (is_careless or _accepts(judge, slot, [*claims, observed][:2], request)):
        return wrong[0]
    if judge.chooses == "not what it observed" or _obeyed(judge, request):
        return next((option for option in claims if not _says(slot, option, observed)), claims[0])
    if judge.chooses == "gist":
        return next((option for option in claims if _share_a_word(option, observed)), claims[0])
    belief = _belief_for_choice(judge, request.episode, slot, options, dice)
    return _best_option(slot, claims, belief)


def _belief_for_choice(
    judge: JudgeParameters, episode: WorldEpisode, slot: str, options: Sequence[str], dice: random.Random
) -> str:
    """What it believes when it looks again: an error may be kept, corrected or new."""
    observed, truth = find_belief(judge, episode, slot), episode.truth.get(slot, "")
    if slot == "outcome" and judge.constant_outcome:
        return judge.constant_outcome
    if observed != truth and dice.random() < max(judge.stubbornness, judge.correlation):
        return observed
    errors = judge.error(slot, episode.succeeded) if judge.choice_errors is None else judge.choice_errors
    if dice.random() < errors:
        return dice.choice([option for option in options if not _says(slot, option, truth)] or list(options))
    return truth


def _best_option(slot: str, claims: Sequence[str], belief: str) -> str:
    """The option that says what is believed, the one that says most where several do."""
    if belief in ("other", "cannot tell"):
        return belief
    if not belief:
        return "cannot tell" if slot in ("outcome",) else "other"
    fitting = [option for option in claims if _says(slot, option, belief)]
    return max(fitting, key=len) if fitting else "other"


def _says(slot: str, option: str, belief: str) -> bool:
    if not belief:
        return False
    claimed, actual = canonical(slot, option), canonical(slot, belief)
    if slot == "attributes":
        return bool(claimed) and set(claimed.split(", ")) <= set(actual.split(", "))
    return claimed == actual


def _additions(judge: JudgeParameters, request: Request, document: Mapping[str, Any]) -> list[str]:
    """The words of an entry that say more; a note that it obeys anywhere in the request sways it about all."""
    words = [str(word) for word in document.get("words", [])]
    if judge.compares == "same" or judge.chooses == "first" or _obeyed(judge, request):
        return []
    if _takes_for_request(judge, *words):
        return []
    return [word for word in words if _says_more(word, document.get("slots", {}))]


def _says_more(word: str, slots: Mapping[str, str]) -> bool:
    """Whether a word is neither glue nor a part of another way to say what the slots say."""
    if word in GLUE_WORDS:
        return False
    said = set(_words(*slots.values()))
    for slot, value in slots.items():
        if slot in VALUES:
            for part in canonical(slot, value).split(", "):
                said |= set(_words(part, *VALUES[slot].get(part, ())))
    action = canonical("action", slots.get("action", ""))
    if action in (*ACTIONS, *SWAPPED_FORMS):
        said |= {part for forms in action_forms(action) for part in _words(*forms)}
    return word not in said


def _words(*texts: str) -> list[str]:
    return [word for text in texts for word in text.split()]


def _fill_slots(judge: JudgeParameters, request: Request, sentence: str) -> dict[str, Any]:
    """The slots of a sentence; a note that it obeys anywhere in the request sways it about all sentences."""
    if _obeyed(judge, request):
        nothing = dict.fromkeys(("action_words", "object", "from", "to", "hand", "manner", "count"), "")
        return {"action": "other", **nothing, "attributes": [], "outcome": NOT_VISIBLE}
    slots = parse_sentence(sentence)
    dice = random.Random(f"fill {judge.seed} {sentence}")
    kept = {slot: value for slot, value in slots.items() if dice.random() < judge.fills or slot == "action"}
    action = _guide_action(request, kept.get("action", "")) if kept.get("action") else "other"
    listed = kept.get("attributes", "")
    return {
        "action": action,
        "action_words": slots.get("words", ""),
        "object": kept.get("object", ""),
        "attributes": listed.split(", ") if listed else [],
        **{slot: _with_relation(sentence, kept.get(slot, "")) for slot in ("from", "to")},
        **{slot: kept.get(slot, "") for slot in ("hand", "manner", "count")},
        "outcome": kept.get("outcome", NOT_VISIBLE),
    }


def _with_relation(sentence: str, place: str) -> str:
    """A place with the preposition that stands before it in a sentence."""
    match = re.search(rf"\b(?:from|in|into|onto) the {re.escape(place)}\b", sentence, re.IGNORECASE)
    return match[0] if place and match else place


def parse_sentence(sentence: str) -> dict[str, str]:
    """The slots of a sentence of the world, as substrings of it; "words" holds those of the action."""
    text = sentence
    for note in NOTES.values():
        text = text.replace(note, "")
    found: dict[str, str] = {}
    for slot, before in (("hand", "with the "), ("from", "from the "), ("to", r"(?:in|into|onto) the ")):
        match = _find_value(text, slot, before)
        if match:
            found[slot] = match
    for slot in ("manner", "count"):
        match = _find_value(text, slot, "")
        if match:
            found[slot] = match
    _add_thing(text, found)
    _add_action(text, found)
    is_failed = re.search(r"\bfail|without success|but this fails", text.lower())
    found["outcome"] = NOT_COMPLETED if is_failed else COMPLETED
    return found


def _find_value(text: str, slot: str, before: str) -> str:
    names = {name for canonical_name, others in VALUES[slot].items() for name in (canonical_name, *others)}
    pattern = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    match = re.search(rf"\b{before}({pattern})\b", text, re.IGNORECASE)
    return match[1] if match else ""


def _add_thing(text: str, found: dict[str, str]) -> None:
    """The thing is the first value of the world that no preposition stands before."""
    things = {
        name for canonical_name, others in VALUES["object"].items() for name in (canonical_name, *others)
    }
    adjectives = {
        name for canonical_name, others in VALUES["attributes"].items() for name in (canonical_name, *others)
    }
    thing = "|".join(sorted(map(re.escape, things), key=len, reverse=True))
    adjective = "|".join(sorted(adjectives))
    pattern = rf"(?<!from )(?<!in )(?<!into )(?<!with )\bthe ((?:(?:{adjective}) )*)({thing})\b"
    match = re.search(pattern, text, re.IGNORECASE)
    if match:
        found["object"] = match[2]
        if match[1].strip():
            found["attributes"] = ", ".join(match[1].split())


def _add_action(text: str, found: dict[str, str]) -> None:
    forms = {
        form: name for name in (*SWAPPED_FORMS, *ACTIONS) for forms in action_forms(name) for form in forms
    }
    for form in sorted(forms, key=len, reverse=True):
        match = re.search(rf"\b{re.escape(form)}\b", text, re.IGNORECASE)
        if match:
            found["action"], found["words"] = forms[form], match[0]
            return
