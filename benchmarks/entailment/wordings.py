"""Says an action in English in many ways, and keeps what the words mean."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.entailment.lexicon import Lexicon
from benchmarks.entailment.meanings import Caption, Event, Noun
from benchmarks.entailment.recasts import TERSE, passive, recast, with_relative_source, without_articles
from benchmarks.entailment.verb_forms import gerund, past, third_person
from benchmarks.entailment.voices import Dresser
from benchmarks.entailment.ways import Ways

# Shares of what a caption may have beside its action.
_SHARE_EMPTY = 0.05
_SHARE_UNKNOWN_NAME, _SHARE_UNKNOWN_VERB, _SHARE_NO_ARTICLE = 0.09, 0.05, 0.08
# Share of captions in whole sentences without articles.
_SHARE_TERSE = 0.05
# What may be added to an action without saying more.
_EMPTY = (
    "all the way",
    "completely",
    "fully",
    "entirely",
    "in one go",
    "as asked",
    "once",
    "for good",
    "there",
)
_WOVEN = (
    "{} , and once that is done , {}",
    "{} ; then {}",
    "first {} , then {}",
    "{} and afterwards {}",
    "{} and next {}",
    "{} , and finally {}",
)
_LETTERS = "bcdfghjklmnprstvwz", "aeiou"


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
        self._left_out, self._has_unknown = left_out, has_unknown
        self._said: list[str] = []
        self._opening, self._is_plain = "", True
        self._dresser = Dresser(lexicon.voices, dice)

    def say(self, caption: Caption, plain: bool) -> Caption:
        """The caption with its text; a plain one is in the imperative and has no adverbs."""
        self._said, self._opening = [], ""
        self._is_plain = plain
        events, texts = [], []
        form = "imperative" if plain else self._form(caption)
        for event in caption.events:
            chosen, words = self._wording(event, form == "result")
            events.append(chosen)
            texts.append(self._bend(words, form))
        text = self._join(texts, weaves=not plain and form in ("imperative", "infinitive", "third", "past"))
        if caption.is_repeated:
            text += self.dice.choice(
                (f" and {texts[0]}", " twice", " again and again", f" and then {texts[0]} again")
            )
        if not plain and form not in TERSE and self.dice.random() < _SHARE_EMPTY:
            text = f"{text} {self.dice.choice(_EMPTY)}"
        text = self._with_manners(text, caption)
        text = text if plain and form == "imperative" else self._dresser.dress(text, form, caption)
        if (form in TERSE and self.dice.random() < 0.7) or (not plain and self.dice.random() < _SHARE_TERSE):
            text = without_articles(text)
        if self._opening:
            text = f"{self._opening} , {text}"
        return replace(caption, text=" ".join(text.split()), events=tuple(events), left_out=tuple(self._said))

    def _form(self, caption: Caption) -> str:
        if caption.outcome != "success" or caption.is_negated:
            return "infinitive"
        if (
            caption.actor == "robot"
            and len(caption.events) == 1
            and caption.events[0].action in self.lexicon.actions
            and self.lexicon.actions[caption.events[0].action].results
            and caption.events[0].thing
            and not caption.is_repeated
            and self.dice.random() < 0.05
        ):
            return "result"
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
            "bare": 2,
            "topic": 2,
            "caused": 1,
            "nominal": 1,
        }
        return self.dice.choices(list(weights), list(weights.values()))[0]

    def _wording(self, event: Event, as_result: bool = False) -> tuple[Event, list[str]]:
        pattern = self._pattern(event.action)
        if as_result:
            pattern = self.dice.choice(self.lexicon.actions[event.action].results)
        if event.wrong_verb:
            pattern = (f"~{event.wrong_verb}", *pattern[1:])
        else:
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
        if event.source and not self._is_plain and "S" not in pattern and self.dice.random() < 0.15:
            parts = with_relative_source(parts, event.source[0], self.dice)
        ways, event = self._ways(event)
        words = ways.add(pattern, parts, as_result)
        self._opening = self._opening or ways.opening
        said = replace(
            event,
            thing=thing,
            more=more,
            goal=(event.goal[0], goal) if event.goal and goal else None,
            source=(event.source[0], source) if event.source and source else None,
            verb=" ".join(pattern),
        )
        return said, [word for word in words if word]

    def _ways(self, event: Event) -> tuple[Ways, Event]:
        """The words for the way, the tool and the side of an action, and the action with their names."""
        path, tool = (self._name(noun) for noun in (event.path and event.path[1], event.tool))
        ways = Ways(
            self.dice,
            path=self._end(self.lexicon.paths, event.path, path),
            tool=self._phrase(tool, "") if tool else "",
            approach=self._pick(self.lexicon.approaches[event.approach]) if event.approach else "",
            is_plain=self._is_plain,
            may_open=not self._opening,
        )
        return ways, replace(event, path=(event.path[0], path) if event.path and path else None, tool=tool)

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
        return replace(event, is_unknown=True), (
            f"~{self._strange(self.lexicon.strange_verbs)}",
            *pattern[1:],
        )

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
            word = self._strange(self.lexicon.strange_names)
            strange_name = word if self.dice.random() < 0.7 else f"{word} {name}"
            return replace(noun, name=strange_name, is_unknown=True)
        return replace(noun, name=name)

    def _strange(self, words: Sequence[str]) -> str:
        """A word that no table has: a rare one, or one of no language."""
        return self.dice.choice(words) if self.dice.random() < 0.7 else self._nonsense()

    def _nonsense(self) -> str:
        consonants, vowels = _LETTERS
        return "".join(
            self.dice.choice(consonants) + self.dice.choice(vowels) for _ in range(3)
        ) + self.dice.choice(consonants)

    def _phrase(self, noun: Noun, action: str) -> str:
        values = [self._pick(self._attribute_names(kind, value)) for kind, value in noun.attributes.items()]
        share = self.dice.random()
        if values and not self._is_plain and share < 0.05 and "material" not in noun.attributes:
            article = self.dice.choice(("the", "the", "a"))
            link = self.dice.choice(
                (
                    "that is",
                    "which is",
                    "that looks",
                    "of the colour" if "colour" in noun.attributes else "that is",
                )
            )
            name = " ".join(word for word in (noun.modifier, noun.name) if word)
            return f"{article} {name} {link} {' and '.join(values)}"
        if "material" in noun.attributes and not self._is_plain and share < 0.15:
            material = noun.attributes["material"]
            bare = {"wooden": "wood", "metal": "metal"}.get(material, material)
            return f"the {noun.name} {self.dice.choice(('of', 'made of', 'made from'))} {bare}"
        words = [noun.modifier, *values, noun.name]
        name = " ".join(word for word in words if word)
        if noun.owner:
            return self._owned(noun.name, name, self.dice.choice(self.lexicon.names[noun.owner][:2]))
        if (
            noun.key in self.lexicon.with_door
            and action in ("open", "close", "lock", "unlock")
            and share < 0.45
        ):
            return self.dice.choice(
                (
                    f"the {name} door",
                    f"the door of the {name}",
                    f"the {name} 's door",
                    f"the door on the {name}",
                )
            )
        return self._with_article(name, action)

    def _with_article(self, name: str, action: str) -> str:
        """A name with an article, now and then as its handle."""
        if action in ("open", "close", "toggle_on", "toggle_off") and self.dice.random() < 0.12:
            return self.dice.choice(
                (f"the {name} handle", f"the handle of the {name}", f"the handle on the {name}")
            )
        if self.dice.random() < _SHARE_NO_ARTICLE:
            return name
        weights = (20, 2, 0, 0, 0, 0) if self._is_plain else (14, 3, 1, 1, 1, 1)
        article = self.dice.choices(("the", "a", "this", "that", "its", "one"), weights)[0]
        return f"{'an' if article == 'a' and name[0] in 'aeiou' else article} {name}"

    def _owned(self, part: str, name: str, owner: str) -> str:
        """A part with what it belongs to: "the lock of the safe"."""
        word = self.dice.choice(self.lexicon.part_words)
        if word == "'s":
            return f"the {owner} 's {name}"
        if word == "compound":
            return f"the {name.removesuffix(part).strip()} {owner} {part}"
        return f"the {name} {word} the {owner}"

    def _attribute_names(self, kind: str, value: str) -> Sequence[str]:
        return next(names for names in self.lexicon.attributes[kind] if names[0] == value)

    def _pick(self, options: Sequence[str]) -> str:
        return options[0] if self.dice.random() < 0.4 else self.dice.choice(options)

    def _bend(self, words: Sequence[str], form: str) -> str:
        if form == "result":
            return " ".join(words)
        if form in ("passive", "bare"):
            copula = self.dice.choice(("is", "is being", "gets", "was", "has been", "is"))
            said = passive(words, "" if form == "bare" else copula)
            return said or self._bend(words, "past" if form == "bare" else "third")
        if form in ("topic", "caused", "nominal"):
            return recast(words, form, self.dice) or self._bend(words, "imperative")
        bend = {"third": third_person, "progressive": gerund, "gerund": gerund, "past": past}.get(form, str)
        return " ".join(bend(word[1:]) if word.startswith("~") else word for word in words)

    def _join(self, texts: Sequence[str], weaves: bool) -> str:
        if len(texts) == 2 and weaves and self.dice.random() < 0.4:
            return self.dice.choice(_WOVEN).format(*texts)
        return self.dice.choice((" and ", " and then ", " , then ", " , and ")).join(texts)

    def _with_manners(self, text: str, caption: Caption) -> str:
        for kind, words in caption.manners:
            if kind == "tool":
                by, article = self.dice.choice(("with", "using", "by")), self.dice.choice(("the", "its", "a"))
                words = f"{by} {article} {words}"
            text = f"{text} {words}"
        return text
