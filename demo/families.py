"""The families of beginner's problems that the demo's corpus and problem set are drawn from.

Everything here was written for this project. A table maps an operation to what is asked for and to expressions
that answer it; `exercises.Operation` explains the placeholders.
"""

from demo import inputs
from demo.exercises import Family
from demo.templates import (
    CHANGES,
    CONDITIONS,
    COUNT_LOOP,
    KEEP_LOOP,
    LIST,
    NUMBER,
    PAIR,
    TABLE,
    TOTAL_LOOP,
    WORD,
    change_some,
    for_conditions,
    operations,
)

NUMBER_FAMILIES = (
    Family(
        "check",
        operations(
            {
                key: (f"check whether a number is {phrase}", test.replace("v", "{p}"))
                for key, (phrase, test) in CONDITIONS.items()
            }
        ),
        ("is_{operation}", "check_{operation}", "{operation}_number"),
        NUMBER,
        inputs.numbers,
    ),
    Family(
        "change",
        operations(
            {
                key: (request.replace("THING", "a number"), value.replace("v", "{p}"))
                for key, (request, value) in CHANGES.items()
            }
        ),
        ("{operation}_number", "do_{operation}", "number_{operation}"),
        NUMBER,
        inputs.numbers,
    ),
    Family(
        "pair",
        operations(
            {
                "larger": ("get the larger of two numbers", "max({p}, {q})", "{p} if {p} > {q} else {q}"),
                "smaller": ("get the smaller of two numbers", "min({p}, {q})", "{p} if {p} < {q} else {q}"),
                "sum": ("add two numbers", "{p} + {q}"),
                "gap": ("subtract the second number from the first", "{p} - {q}"),
                "product": ("multiply two numbers", "{p} * {q}"),
                "mean": ("get the mean of two numbers", "({p} + {q}) / 2"),
                "power": ("raise the first number to the power of the second", "{p} ** {q}"),
                "equal": ("check whether two numbers are equal", "{p} == {q}"),
            }
        ),
        ("{operation}_of_two", "two_{operation}", "get_{operation}", "pair_{operation}"),
        PAIR,
        inputs.number_pairs,
    ),
    Family(
        "series",
        operations(
            {
                "multiples": ("list the first {n} multiples of a number", "[{p} * i for i in range(1, {n} + 1)]"),
                "powers": ("list the first {n} powers of a number", "[{p} ** i for i in range(1, {n} + 1)]"),
                "steps": ("list {n} numbers that start at a number", "[{p} + i for i in range({n})]"),
                "upto": ("list the numbers from 1 to a number", "list(range(1, {p} + 1))"),
                "sum": ("sum the numbers from 1 to a number", "sum(range(1, {p} + 1))"),
            }
        ),
        ("{operation}_list", "get_{operation}", "number_{operation}"),
        NUMBER,
        inputs.small_numbers,
        constant_range=(2, 9),
    ),
)

LIST_FAMILIES = (
    Family(
        "keep",
        for_conditions("keep the numbers of a list that are CONDITION", "return [v for v in {p} if TEST]", KEEP_LOOP),
        ("keep_{operation}", "{operation}_only", "select_{operation}"),
        LIST,
        inputs.number_lists,
    ),
    Family(
        "drop",
        for_conditions("drop the numbers of a list that are CONDITION", "return [v for v in {p} if not TEST]"),
        ("drop_{operation}", "remove_{operation}", "without_{operation}"),
        LIST,
        inputs.number_lists,
    ),
    Family(
        "count",
        for_conditions(
            "count the numbers of a list that are CONDITION", "return len([v for v in {p} if TEST])", COUNT_LOOP
        ),
        ("count_{operation}", "{operation}_count", "how_many_{operation}"),
        LIST,
        inputs.number_lists,
    ),
    Family(
        "total",
        for_conditions(
            "sum the numbers of a list that are CONDITION", "return sum([v for v in {p} if TEST])", TOTAL_LOOP
        ),
        ("sum_{operation}", "total_{operation}", "{operation}_sum"),
        LIST,
        inputs.number_lists,
    ),
    Family(
        "some",
        for_conditions("check whether some number of a list is CONDITION", "return any([TEST for v in {p}])"),
        ("some_{operation}", "has_{operation}", "any_{operation}"),
        LIST,
        inputs.single_sided_lists,
    ),
    Family(
        "every",
        for_conditions("check whether every number of a list is CONDITION", "return all([TEST for v in {p}])"),
        ("all_{operation}", "every_{operation}", "{operation}_all"),
        LIST,
        inputs.single_sided_lists,
    ),
    Family(
        "each",
        operations(
            {
                key: (request.replace("THING", "each number of a list"), f"[{value} for v in {{p}}]")
                for key, (request, value) in CHANGES.items()
            }
        ),
        ("{operation}_each", "{operation}_list", "each_{operation}"),
        LIST,
        inputs.number_lists,
    ),
    Family(
        "some_each", change_some(), ("{operation}", "list_{operation}", "do_{operation}"), LIST, inputs.number_lists
    ),
    Family(
        "fact",
        operations(
            {
                "sum": ("get the sum of a list", "sum({p})"),
                "largest": ("get the largest number of a list", "max({p})", "sorted({p})[-1]"),
                "smallest": ("get the smallest number of a list", "min({p})", "sorted({p})[0]"),
                "length": ("get the length of a list", "len({p})"),
                "spread": ("get the largest minus the smallest number of a list", "max({p}) - min({p})"),
                "mean": ("get the mean of a list", "sum({p}) / len({p})"),
                "unique": ("count the different numbers of a list", "len(set({p}))"),
            }
        ),
        ("list_{operation}", "{operation}_of_list", "get_{operation}", "find_{operation}"),
        LIST,
        inputs.lists_with_repeats,
    ),
    Family(
        "part",
        operations(
            {
                "first": ("get the first {n} elements of a list", "{p}[:{n}]"),
                "last": ("get the last {n} elements of a list", "{p}[-{n}:]"),
                "after": ("get a list without its first {n} elements", "{p}[{n}:]"),
                "before": ("get a list without its last {n} elements", "{p}[:-{n}]"),
                "stride": ("get every element of a list in steps of {n}", "{p}[::{n}]"),
                "at": ("get the element of a list at index {n}", "{p}[{n}]"),
            }
        ),
        ("{operation}_elements", "{operation}_part", "get_{operation}", "take_{operation}"),
        LIST,
        inputs.long_lists,
        constant_range=(2, 9),
    ),
    Family(
        "order",
        operations(
            {
                "reverse": ("reverse a list", "{p}[::-1]", "list(reversed({p}))"),
                "rising": ("sort a list from small to large", "sorted({p})"),
                "falling": ("sort a list from large to small", "sorted({p}, reverse=True)", "sorted({p})[::-1]"),
                "unique": ("sort a list and drop repeated numbers", "sorted(set({p}))"),
                "first": ("get the first element of a list", "{p}[0]"),
                "last": ("get the last element of a list", "{p}[-1]"),
                "rotate": ("move the first element of a list to its end", "{p}[1:] + {p}[:1]"),
            }
        ),
        ("{operation}_list", "list_{operation}", "get_{operation}", "{operation}_order"),
        LIST,
        inputs.lists_with_repeats,
    ),
)

WORD_FAMILIES = (
    Family(
        "word",
        operations(
            {
                "reverse": ("reverse a string", "{p}[::-1]", "''.join(reversed({p}))"),
                "upper": ("write a string in upper case", "{p}.upper()"),
                "lower": ("write a string in lower case", "{p}.lower()"),
                "length": ("get the length of a string", "len({p})"),
                "first": ("get the first letter of a string", "{p}[0]"),
                "last": ("get the last letter of a string", "{p}[-1]"),
                "twice": ("write a string twice", "{p} * 2", "{p} + {p}"),
            }
        ),
        ("{operation}_string", "{operation}_word", "string_{operation}", "get_{operation}"),
        WORD,
        inputs.words,
    ),
    Family(
        "letter",
        operations(
            {
                "count": ("count the letter {c} in a string", "{p}.count('{c}')"),
                "drop": ("drop the letter {c} from a string", "{p}.replace('{c}', '')"),
                "starts": ("check whether a string starts with the letter {c}", "{p}.startswith('{c}')"),
                "ends": ("check whether a string ends with the letter {c}", "{p}.endswith('{c}')"),
                "holds": ("check whether a string has the letter {c}", "'{c}' in {p}"),
                "split": ("split a string at the letter {c}", "{p}.split('{c}')"),
            }
        ),
        ("{operation}_letter", "letter_{operation}", "{operation}_char"),
        WORD,
        inputs.words_around_letter,
    ),
    Family(
        "cut",
        operations(
            {
                "repeat": ("write a string {n} times", "{p} * {n}"),
                "first": ("get the first {n} letters of a string", "{p}[:{n}]"),
                "last": ("get the last {n} letters of a string", "{p}[-{n}:]"),
                "longer": ("check whether a string is longer than {n} letters", "len({p}) > {n}"),
                "shorter": ("check whether a string is shorter than {n} letters", "len({p}) < {n}"),
            }
        ),
        ("{operation}_string", "string_{operation}", "{operation}_letters"),
        WORD,
        inputs.words_around_length,
        constant_range=(2, 9),
    ),
    Family(
        "table",
        operations(
            {
                "get": ("get the value of a key in a table or {n} without it", "{p}.get({q}, {n})"),
                "has": ("check whether a table has a key", "{q} in {p}"),
            }
        ),
        ("{operation}_key", "table_{operation}", "{operation}_value"),
        TABLE,
        inputs.tables,
    ),
)

FAMILIES = NUMBER_FAMILIES + LIST_FAMILIES + WORD_FAMILIES
