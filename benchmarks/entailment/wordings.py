"""Says an action in English in many ways, and keeps what the words mean."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.entailment.lexicon import Lexicon
from benchmarks.entailment.verb_forms import gerund, participle, past, third_person

# Shares of what a caption may have beside its action.
_SHARE_UNKNOWN_NAME, _SHARE_UNKNOWN_VERB, _SHARE_NO_ARTICLE = 0.05, 0.03, 0.08
# Words that end the object of a passive sentence.
_ENDS = frozenset(
    [
        *(
            "open",
            "closed",
            "shut",
            "up",
            "down",
            "on",
            "off",
            "in",
            "into",
            "to",
            "onto",
            "from",
            "out",
            "away",
        ),
        *(
            "with",
            "by",
            "using",
            "under",
            "over",
            "behind",
            "beside",
            "next",
            "at",
            "towards",
            "toward",
            "against",
        ),
        *("around", "apart", "upright", "inside", "left", "right", "forward", "back", "sideways", "and", ","),
        *("through", "near", "clockwise", "counterclockwise", "before", "atop", "upon", "within"),
    ]
)
_LETTERS = "bcdfghjklmnprstvwz", "aeiou"


@dataclass(frozen=True, slots=True)
class Noun:
    """A thing in a caption: its key, the words for it, and whether its name is a word that nobody knows.

    Attributes:
        key: Key of the thing, or "general:N".
        attributes: Value by kind of attribute.
        modifier: "left" and the like, or "".
        name: How it is called; filled when it is said.
        is_unknown: Its name, or a word before it, is in no lexicon.
    """

    key: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    modifier: str = ""
    name: str = ""
    is_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """An action with its things.

    Attributes:
        action: Key of the action, or "vague".
        thing: What is acted on.
        more: A second thing that is acted on.
        goal: Relation and thing where it ends.
        source: Kind of relation and thing where it starts.
        direction: Direction of motion, or "".
        verb: Wording of the action; filled when it is said.
        is_unknown: The verb is in no lexicon.
    """

    action: str
    thing: Noun | None = None
    more: Noun | None = None
    goal: tuple[str, Noun] | None = None
    source: tuple[str, Noun] | None = None
    direction: str = ""
    verb: str = ""
    is_unknown: bool = False

    @property
    def nouns(self) -> list[Noun]:
        """Its things in order."""
        ends = [pair[1] for pair in (self.goal, self.source) if pair]
        return [noun for noun in (self.thing, self.more) if noun] + ends


@dataclass(frozen=True, slots=True)
class Caption:
    """A caption as text, and what it means.

    Attributes:
        text: The words.
        events: What happens, with the words as they were chosen.
        outcome: "success", "failure" or "attempt".
        is_negated: It says what is not done.
        actor: "robot", "person", "left" or "right".
        manners: Kind and words of stated manners.
        is_repeated: It says that the action happens twice.
        left_out: Names and patterns in it that no training text holds.
    """

    text: str
    events: Sequence[Event]
    outcome: str = "success"
    is_negated: bool = False
    actor: str = "robot"
    manners: Sequence[tuple[str, str]] = ()
    is_repeated: bool = False
    left_out: Sequence[str] = ()


class Speaker:
    """Says events.

    Args:
        lexicon: The words.
        dice: The randomness.
        left_out: "never" says nothing that is left out of training, "names" and "patterns" say it wherever they can.
        has_unknown: Words of no language stand for some names and verbs.
    """

    def __init__(self, lexicon: Lexicon, dice: random.Random, left_out: str, has_unknown: bool) -> None:
        self.lexicon, self.dice = lexicon, dice
        self._voices = lexicon.voices
        self._left_out, self._has_unknown = left_out, has_unknown
        self._said: list[str] = []

    def say(self, caption: Caption, plain: bool) -> Caption:
        """The caption with its text; a plain one is in the imperative and has no adverbs."""
        self._said = []
        events, texts = [], []
        form = "imperative" if plain else self._form(caption)
        for event in caption.events:
            chosen, words = self._wording(event)
            events.append(chosen)
            texts.append(self._bend(words, form))
        text = self._join(texts)
        if caption.is_repeated:
            text += self.dice.choice(
                (f" and {texts[0]}", " twice", " again and again", f" and then {texts[0]} again")
            )
        text = self._with_manners(text, caption)
        text = text if plain and form == "imperative" else self._dress(text, form, caption)
        return replace(caption, text=" ".join(text.split()), events=tuple(events), left_out=tuple(self._said))

    def _form(self, caption: Caption) -> str:
        if caption.outcome != "success" or caption.is_negated:
            return "infinitive"
        if caption.actor != "robot":
            return self.dice.choice(("third", "third", "past", "progressive"))
        weights = {
            "imperative": 6,
            "third": 4,
            "progressive": 2,
            "gerund": 2,
            "past": 2,
            "passive": 2,
            "infinitive": 3,
        }
        return self.dice.choices(list(weights), list(weights.values()))[0]

    def _wording(self, event: Event) -> tuple[Event, list[str]]:
        pattern = self._pattern(event.action)
        event, pattern = self._unknown_verb(event, pattern)
        thing, more, goal, source = (
            self._name(noun)
            for noun in (event.thing, event.more, *(pair and pair[1] for pair in (event.goal, event.source)))
        )
        objects = self._phrase(thing, event.action) if thing else ""
        if more:
            objects += f" and {self._phrase(more, '')}"
        directions = self.lexicon.directions
        parts = {
            "O": objects,
            "D": self._end(self.lexicon.relations, event.goal, goal),
            "S": self._end(self.lexicon.sources, event.source, source),
            "R": self._pick(directions[event.direction]) if event.direction else "",
        }
        words = " ".join(parts.get(word, word) for word in pattern).split(" ")
        rest = [parts[letter] for letter in "DSR" if letter not in pattern and parts[letter]]
        self.dice.shuffle(rest)
        words += " ".join(rest).split()
        said = replace(
            event,
            thing=thing,
            more=more,
            goal=(event.goal[0], goal) if event.goal and goal else None,
            source=(event.source[0], source) if event.source and source else None,
            verb=" ".join(pattern),
        )
        return said, [word for word in words if word]

    def _end(
        self, table: Mapping[str, Sequence[str]], end: tuple[str, Noun] | None, noun: Noun | None
    ) -> str:
        return f"{self._pick(table[end[0]])} {self._phrase(noun, '')}" if end and noun else ""

    def _pattern(self, action: str) -> tuple[str, ...]:
        if action == "vague":
            return self.dice.choice(self.lexicon.vague)
        patterns, left_out = self.lexicon.actions[action].patterns, self.lexicon.left_out_patterns
        usable = [pattern for pattern in patterns if pattern not in left_out]
        strange = [pattern for pattern in patterns if pattern in left_out]
        if self._left_out == "patterns" and strange:
            chosen = self.dice.choice(strange)
            self._said.append(" ".join(chosen))
            return chosen
        # The first patterns are the usual ones.
        return self.dice.choice(usable[:6] if self.dice.random() < 0.3 else usable)

    def _unknown_verb(self, event: Event, pattern: tuple[str, ...]) -> tuple[Event, tuple[str, ...]]:
        verbs = [index for index, word in enumerate(pattern) if word.startswith("~")]
        if (
            event.is_unknown
            or not self._has_unknown
            or self.dice.random() > _SHARE_UNKNOWN_VERB
            or len(verbs) > 1
        ):
            return event, pattern
        return replace(event, is_unknown=True), (f"~{self._nonsense()}", *pattern[1:])

    def _name(self, noun: Noun | None) -> Noun | None:
        if noun is None or noun.name:
            return noun
        if noun.key.startswith("general:"):
            return replace(noun, name=self.dice.choice(self.lexicon.general[int(noun.key[8:])].names))
        names = self.lexicon.names[noun.key]
        usable = [name for name in names if name not in self.lexicon.left_out_names]
        strange = [name for name in names if name in self.lexicon.left_out_names]
        if self._left_out == "names" and strange:
            name = self.dice.choice(strange)
            self._said.append(name)
            return replace(noun, name=name)
        name = usable[0] if self.dice.random() < 0.4 else self.dice.choice(usable)
        if self._has_unknown and self.dice.random() < _SHARE_UNKNOWN_NAME:
            strange_name = self.dice.choice((self._nonsense(), f"{self._nonsense()} {name}"))
            return replace(noun, name=strange_name, is_unknown=True)
        return replace(noun, name=name)

    def _nonsense(self) -> str:
        consonants, vowels = _LETTERS
        return "".join(
            self.dice.choice(consonants) + self.dice.choice(vowels) for _ in range(3)
        ) + self.dice.choice(consonants)

    def _phrase(self, noun: Noun, action: str) -> str:
        values = [self._pick(self._attribute_names(kind, value)) for kind, value in noun.attributes.items()]
        words = [noun.modifier, *values, noun.name]
        name = " ".join(word for word in words if word)
        if action in ("open", "close", "toggle_on", "toggle_off") and self.dice.random() < 0.12:
            return self.dice.choice(
                (f"the {name} handle", f"the handle of the {name}", f"the handle on the {name}")
            )
        if self.dice.random() < _SHARE_NO_ARTICLE:
            return name
        article = self.dice.choices(("the", "a", "this", "that", "its", "one"), (12, 3, 1, 1, 1, 1))[0]
        return f"{'an' if article == 'a' and name[0] in 'aeiou' else article} {name}"

    def _attribute_names(self, kind: str, value: str) -> Sequence[str]:
        return next(names for names in self.lexicon.attributes[kind] if names[0] == value)

    def _pick(self, options: Sequence[str]) -> str:
        return options[0] if self.dice.random() < 0.4 else self.dice.choice(options)

    def _bend(self, words: Sequence[str], form: str) -> str:
        if form == "passive":
            passive = self._passive(words)
            return passive or self._bend(words, "third")
        bend = {"third": third_person, "progressive": gerund, "gerund": gerund, "past": past}.get(form, str)
        return " ".join(bend(word[1:]) if word.startswith("~") else word for word in words)

    def _passive(self, words: Sequence[str]) -> str:
        """ "The drawer is pushed closed": only for one verb, with its object at its side or after one particle."""
        verbs = [word for word in words if word.startswith("~")]
        articles = [index for index, word in enumerate(words) if word in ("the", "a", "an", "this", "that")]
        if len(verbs) != 1 or not articles or articles[0] > 2:
            return ""
        first, stop = (
            articles[0],
            next((i for i in range(articles[0] + 1, len(words)) if words[i] in _ENDS), len(words)),
        )
        copula = self.dice.choice(("is", "is being", "gets", "was", "has been", "is"))
        return " ".join(
            [*words[first:stop], copula, participle(words[0][1:]), *words[1:first], *words[stop:]]
        )

    def _join(self, texts: Sequence[str]) -> str:
        return self.dice.choice((" and ", " and then ", " , then ", " , and ", " before it will ")[:4]).join(
            texts
        )

    def _with_manners(self, text: str, caption: Caption) -> str:
        for kind, words in caption.manners:
            if kind == "tool":
                by, article = self.dice.choice(("with", "using", "by")), self.dice.choice(("the", "its", "a"))
                words = f"{by} {article} {words}"
            text = f"{text} {words}"
        return text

    def _dress(self, text: str, form: str, caption: Caption) -> str:
        if caption.is_negated or caption.outcome != "success":
            text = self._outcome(text, caption)
        elif form == "infinitive":
            text = self.dice.choice(
                (*self._voices["modals"], *self._voices["commands"], *self._voices["managed"])
            ).format(text)
            if not text.startswith(("have", "let", "make", "use", "get", "the ", "try", "manage to")):
                text = f"{self._subject(caption)} {text}"
        elif form in ("third", "past"):
            text = (
                f"{self._subject(caption)} {text}"
                if caption.actor != "robot" or self.dice.random() < 0.8
                else text
            )
        elif form == "progressive":
            text = f"{self._subject(caption)} {self.dice.choice(('is', 'is', 'was'))} {text}"
        elif form == "passive" and self.dice.random() < 0.3:
            text = f"{text} by {self._subject(caption)}"
        elif form == "imperative" and self.dice.random() < 0.15:
            text = self.dice.choice(self._voices["openings"]).format(text)
        return text

    def _outcome(self, text: str, caption: Caption) -> str:
        if caption.is_negated:
            text = self.dice.choice(self._voices["negations"]).format(text)
        elif caption.outcome == "attempt":
            text = self.dice.choice(self._voices["attempts"]).format(text)
        elif self.dice.random() < 0.3:
            start = self.dice.choice((*self._voices["attempts"], "{}"))
            text = f"{start} {self.dice.choice(self._voices['failed_ends'])}".format(text)
        else:
            text = self.dice.choice(self._voices["failures"]).format(text)
        return (
            f"{self._subject(caption)} {text}"
            if caption.actor != "robot" or self.dice.random() < 0.5
            else text
        )

    def _subject(self, caption: Caption) -> str:
        if caption.actor == "person":
            return self.dice.choice(self._voices["persons"])
        if caption.actor in ("left", "right"):
            return self.dice.choice(self._voices["sides"]).format(side=caption.actor)
        return self.dice.choice(self._voices["robots"])
