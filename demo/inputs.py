"""Candidate arguments for the tests of an exercise: near the constants, at the edges, and far from both.

Every maker takes a random generator and the exercise's constants by name, and returns argument tuples;
`problem_set.py` chooses those that tell right bodies from wrong ones.
"""

import random
from collections.abc import Mapping

from demo.exercises import LETTERS, Arguments

Constants = Mapping[str, object]


def _near(constants: Constants) -> list[int]:
    """Numbers at, next to and at twice every numeric constant."""
    return [near for n in constants.values() if isinstance(n, int) for near in (n - 1, n, n + 1, 2 * n)]


def _word(rng: random.Random, length: int) -> str:
    return "".join(rng.choice(LETTERS) for _ in range(length))


def numbers(rng: random.Random, constants: Constants) -> list[Arguments]:
    """One number."""
    return [(n,) for n in dict.fromkeys([*_near(constants), 0, 1, 3, 4, -5, *(rng.randint(-9, 24) for _ in range(8))])]


def small_numbers(rng: random.Random, constants: Constants) -> list[Arguments]:
    """One number from 1 to 8, for bodies that count up to it."""
    return [(n,) for n in range(1, 9)]


def number_pairs(rng: random.Random, constants: Constants) -> list[Arguments]:
    """Two small positive numbers."""
    return [(rng.randint(2, 9), rng.randint(2, 6)) for _ in range(14)]


def number_lists(rng: random.Random, constants: Constants) -> list[Arguments]:
    """One list of 4 to 9 numbers, some of them near the constants; the last list lies around zero."""
    near = _near(constants)
    lists: list[Arguments] = []
    for _ in range(14):
        drawn = [rng.randint(-9, 24) for _ in range(rng.randint(4, 6))] + rng.sample(near, min(len(near), 3))
        rng.shuffle(drawn)
        lists.append((drawn,))
    return [*lists, ([3, 0, 1, -1, 2],)]


def single_sided_lists(rng: random.Random, constants: Constants) -> list[Arguments]:
    """Lists of numbers whose smallest or largest element lies near a constant, for questions about some or every."""
    lists = number_lists(rng, constants)
    for edge in (*_near(constants), 0, 1):
        lists.append(([edge + step for step in rng.sample(range(6), 3)],))
        lists.append(([edge - step for step in rng.sample(range(6), 3)],))
        lists.append(([edge + 2 * step for step in rng.sample(range(6), 3)],))
        lists.append(([edge] * 3,))
    return lists


def long_lists(rng: random.Random, constants: Constants) -> list[Arguments]:
    """One list longer than any position that a family uses."""
    return [([rng.randint(-9, 24) for _ in range(rng.randint(11, 14))],) for _ in range(10)]


def lists_with_repeats(rng: random.Random, constants: Constants) -> list[Arguments]:
    """One list in which the first and the third value occur twice."""
    lists = [[rng.randint(-9, 24) for _ in range(rng.randint(4, 6))] for _ in range(12)]
    return [(drawn + drawn[:1] + drawn[2:3],) for drawn in lists]


def words(rng: random.Random, constants: Constants) -> list[Arguments]:
    """One word in mixed case."""
    return [(rng.choice((str.lower, str.title, str.swapcase))(_word(rng, rng.randint(3, 7))),) for _ in range(14)]


def words_around_letter(rng: random.Random, constants: Constants) -> list[Arguments]:
    """One word that begins with, ends with, holds or lacks the letter c."""
    letter = str(constants["c"])
    found: list[Arguments] = []
    for _ in range(4):
        word = _word(rng, rng.randint(3, 6)).replace(letter, "")
        found += [(word,), (letter + word,), (word + letter,), (word[:2] + letter + word,)]
    return found


def words_around_length(rng: random.Random, constants: Constants) -> list[Arguments]:
    """One word whose length lies around the number n."""
    length = int(str(constants["n"]))
    return [(_word(rng, max(1, length + difference)),) for difference in (-1, 0, 1, 2, 3, 0, 1, -1, 4)]


def tables(rng: random.Random, constants: Constants) -> list[Arguments]:
    """A table of three entries and a key, which every other table lacks."""
    found: list[Arguments] = []
    for index in range(12):
        keys = rng.sample(LETTERS, 4)
        found.append(({key: rng.randint(1, 30) for key in keys[:3]}, keys[2] if index % 2 else keys[3]))
    return found
