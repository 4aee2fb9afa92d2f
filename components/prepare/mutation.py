"""New inputs from those of the visible tests: values are changed by type and keep their structure.

The method is that of EvalPlus (Liu et al. 2023, arXiv:2305.01210, section 2.2): seeds are mutated step by step, and
pieces of other seeds are used as ingredients. MBPP has no contracts that say which inputs make sense, so what all seeds
have in common is kept (see `Habits`), and what the reference cannot answer is dropped later (see `hidden`).
"""

import copy
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from components.prepare.visible import Arguments

MOST_STEPS = 3
TRIES_PER_INPUT = 8
ROOM = 30  # integers may be this large, or twice as large as the largest seed
LONGEST = 12  # elements, or twice the longest seed
USE_INGREDIENT = 0.3


@dataclass
class Habits:
    """What the seeds have in common at one argument.

    numbers: smallest and largest. lengths: of containers and strings, by depth. characters: of all strings.
    ascending: whether every seed is a list in order. same_lengths: whether lists inside a list have one length.
    """

    numbers: tuple[float, float] | None = None
    lengths: dict[int, tuple[int, int]] = field(default_factory=dict)
    characters: str = ""
    ascending: bool = False
    same_lengths: bool = False
    ingredients: dict[type, list[Any]] = field(default_factory=dict)


def mutated_inputs(seeds: Sequence[Arguments], wanted: int, rng: random.Random) -> list[Arguments]:
    """Up to `wanted` different inputs that are none of the seeds; fewer where the seeds leave no room for more."""
    known = {repr(seed) for seed in seeds}
    seeds = [seed for seed in seeds if seed]
    if not seeds or len({len(seed) for seed in seeds}) > 1:
        return []
    mutation = Mutation(seeds, rng)
    pool, found = list(seeds), []
    for _ in range(TRIES_PER_INPUT * wanted):
        candidate = mutation.of(rng.choice(pool))
        text = repr(candidate)
        if text not in known:
            known.add(text)
            pool.append(candidate)
            found.append(candidate)
            if len(found) == wanted:
                break
    return found


class Mutation:
    """Mutates inputs of one problem."""

    def __init__(self, seeds: Sequence[Arguments], rng: random.Random) -> None:
        self.rng = rng
        self.habits = [habits_of([seed[place] for seed in seeds]) for place in range(len(seeds[0]))]
        self.lengths = _arguments_that_are_lengths(seeds)

    def of(self, seed: Arguments) -> Arguments:
        """A seed after one to MOST_STEPS changes, each at one argument."""
        values = list(copy.deepcopy(seed))
        for _ in range(self.rng.randint(1, MOST_STEPS)):
            place = self.rng.randrange(len(values))
            values[place] = self._changed(values[place], self.habits[place], 0)
            if self.habits[place].ascending:
                values[place] = type(values[place])(sorted(values[place]))
        for length, whose in self.lengths.items():
            values[length] = len(values[whose])
        return tuple(values)

    def _changed(self, value: Any, habits: Habits, depth: int) -> Any:
        others = habits.ingredients.get(type(value))
        if others and self.rng.random() < USE_INGREDIENT:
            return self.rng.choice(others)
        kind = type(value)
        if kind is bool:
            return not value
        if kind is int or kind is float:
            return self._number(value, habits)
        if kind is str:
            return self._text(value, habits, depth)
        if kind in (list, tuple):
            return kind(self._elements(list(value), habits, depth))
        if kind is set:
            return set(self._elements(sorted(value, key=repr), habits, depth))
        if kind is dict:
            return self._mapping(dict(value), habits, depth)
        return value  # None, and what is too rare to know how

    def _number(self, value: float, habits: Habits) -> float:
        low, high = habits.numbers or (value, value)
        lowest = 1 if low >= 1 else 0 if low >= 0 else min(2 * low, -ROOM)
        highest = max(2 * high, ROOM)
        if isinstance(value, int):
            choices = [value + 1, value - 1, value + self.rng.randint(-5, 5), 2 * value, value // 2]
            choices.append(self.rng.randint(int(lowest), int(max(lowest, min(highest, value + 100)))))
            choices += [-value] * (lowest < 0)
            return int(min(highest, max(lowest, self.rng.choice(choices))))
        shift, scale = self.rng.uniform(-1, 1), self.rng.uniform(0.5, 1.5)
        number = self.rng.choice(
            [value + shift, value * scale, float(round(value)), -value if lowest < 0 else value + 1]
        )
        return float(round(min(highest, max(lowest, number)), self.rng.choice([1, 2, 3])))

    def _bounds(self, habits: Habits, depth: int) -> tuple[int, int]:
        """Fewest and most elements at a depth: never none where no seed is empty."""
        shortest, longest = habits.lengths.get(depth, (0, 0))
        return min(shortest, 1), max(LONGEST, 2 * longest)

    def _text(self, text: str, habits: Habits, depth: int) -> str:
        fewest, most = self._bounds(habits, depth)
        letters = habits.characters or "abc"
        at = self.rng.randint(0, len(text))
        choices = [text[:at] + self.rng.choice(letters) + text[at:]]
        if text:
            at = self.rng.randrange(len(text))
            end = self.rng.randint(at + 1, len(text))
            choices += [text[:at] + self.rng.choice(letters) + text[at + 1 :], text[:at] + text[end:], text[:end]]
            choices += [text[:end] + text[at:end] + text[end:], text[::-1]]
        fitting = [choice for choice in choices if fewest <= len(choice) <= most]
        return self.rng.choice(fitting) if fitting else text

    def _elements(self, elements: list[Any], habits: Habits, depth: int) -> list[Any]:
        fewest, most = self._bounds(habits, depth)
        if not elements:
            return elements
        at = self.rng.randrange(len(elements))
        ways = ["change", "change", "swap"]
        rigid = habits.same_lengths and depth > 0  # rows of a table change in what they hold, not in how much
        ways += ["drop"] * (len(elements) > fewest and not rigid)
        ways += ["repeat", "insert"] * (len(elements) < most and not rigid)
        way = self.rng.choice(ways)
        if way == "drop":
            del elements[at]
        elif way == "swap":
            other = self.rng.randrange(len(elements))
            elements[at], elements[other] = elements[other], elements[at]
        elif way == "repeat":
            elements.insert(self.rng.randint(0, len(elements)), copy.deepcopy(elements[at]))
        elif way == "insert":
            elements.insert(at, self._changed(copy.deepcopy(elements[at]), habits, depth + 1))
        else:
            elements[at] = self._changed(elements[at], habits, depth + 1)
        return elements

    def _mapping(self, mapping: dict[Any, Any], habits: Habits, depth: int) -> dict[Any, Any]:
        fewest, _ = self._bounds(habits, depth)
        if not mapping:
            return mapping
        key = self.rng.choice(list(mapping))
        ways = ["value", "value", "add"] + ["drop"] * (len(mapping) > fewest)
        way = self.rng.choice(ways)
        if way == "drop":
            del mapping[key]
        elif way == "value":
            mapping[key] = self._changed(copy.deepcopy(mapping[key]), habits, depth + 1)
        else:
            mapping[self._changed(key, habits, depth + 1)] = copy.deepcopy(mapping[key])
        return mapping


def habits_of(values: Sequence[Any]) -> Habits:
    """What the seeds' values at one argument have in common."""
    habits = Habits()
    letters: set[str] = set()
    rows: list[set[int]] = []
    for value in values:
        for depth, part in _parts(value, 0):
            if type(part) in (int, float):
                low, high = habits.numbers or (part, part)
                habits.numbers = min(low, part), max(high, part)
            elif isinstance(part, str | list | tuple | set | dict):
                low, high = habits.lengths.get(depth, (len(part), len(part)))
                habits.lengths[depth] = min(low, len(part)), max(high, len(part))
            if isinstance(part, str):
                letters |= set(part)
            if type(part) in (int, float, str) and depth > 0:
                habits.ingredients.setdefault(type(part), []).append(part)
        if isinstance(value, list | tuple):
            rows.append({len(row) for row in value if isinstance(row, list | tuple)})
    habits.characters = "".join(sorted(letters))
    habits.ascending = all(map(_is_ascending, values))
    habits.same_lengths = bool(rows) and all(len(lengths) == 1 for lengths in rows)
    return habits


def _parts(value: Any, depth: int) -> Iterator[tuple[int, Any]]:
    """The value and everything in it, with the depth at which it stands; keys of a dict too."""
    yield depth, value
    if isinstance(value, list | tuple | set):
        for part in value:
            yield from _parts(part, depth + 1)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _parts(key, depth + 1)
            yield from _parts(part, depth + 1)


def _is_ascending(value: Any) -> bool:
    if not isinstance(value, list | tuple) or len(value) < 3:
        return False
    return all(type(part) in (int, float) for part in value) and list(value) == sorted(value)


def _arguments_that_are_lengths(seeds: Sequence[Arguments]) -> dict[int, int]:
    """Place of an integer argument -> place of the container whose length it is in every seed."""
    places = range(len(seeds[0]))
    return {
        number: whose
        for number in places
        for whose in places
        if all(
            type(seed[number]) is int
            and isinstance(seed[whose], list | tuple | str)
            and seed[number] == len(seed[whose])
            for seed in seeds
        )
    }
