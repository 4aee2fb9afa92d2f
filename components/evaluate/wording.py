"""What the numbers of evaluation.json mean, in sentences: for the page, the log and the end of a local run.

A result is said of the model that was measured. One training run says nothing of the method that made it: another seed
may gain more or less.
"""

from collections.abc import Mapping
from typing import Any

from components.evaluate.comparison import MODELS
from components.shared.pages import number, percent, points

NAMES = {"base": "base model", "tuned": "tuned model"}
MANY_TRUNCATED = 0.2
NBSP = "\N{NO-BREAK SPACE}"


def models_in(content: Mapping[str, Any]) -> tuple[str, ...]:
    """The models that were evaluated: base and tuned, or the base alone."""
    return tuple(model for model in MODELS if model in content)


def bare(difference: float) -> str:
    """A difference in points without the word: `+1.5`."""
    return points(difference).removesuffix(" points")


def size(difference: float) -> str:
    """A size in points, without a sign."""
    return points(difference).lstrip("+±")


def headline(content: Mapping[str, Any]) -> str:
    """The result in one sentence, and what it did to the regression problems in a second."""
    if "tuned" not in content:
        low, high = content["base"]["ci95"]
        sure = f"95{NBSP}% interval {percent(low)} to {percent(high)}"
        return f"pass@1 of the base model is {percent(content['base']['pass_at_1'])} ({sure})."
    change = f"from {percent(content['base']['pass_at_1'])} to {percent(content['tuned']['pass_at_1'])}"
    what = "This adapter" if content["kind"] == "adapter" else "This model"
    if content["reward"] == "random":
        sure = (
            "within noise, as it should be" if content["within_noise"] else "beyond noise, although no test taught it"
        )
        first = f"Control run with random rewards: pass@1 went {change}, {sure}."
    elif content["within_noise"]:
        first = f"Within noise: pass@1 went {change}, which cannot be told from no change."
    elif content["difference"]["pass_at_1"] > 0:
        first = f"{what} learned: pass@1 rose {change}."
    else:
        first = f"{what} got worse: pass@1 fell {change}."
    return " ".join(part for part in (first, elsewhere(content)) if part)


def elsewhere(content: Mapping[str, Any]) -> str:
    """What became of the regression problems; nothing without them."""
    found = content["regression"]
    if not found or "tuned" not in found:
        return ""
    change = f"from {percent(found['base']['pass_at_1'])} to {percent(found['tuned']['pass_at_1'])}"
    of = f"{found['problems']} regression problems"
    if found["within_noise"]:
        return f"On {of} nothing changed beyond noise."
    if found["difference"]["pass_at_1"] < 0:
        return f"It costs elsewhere: on {of} pass@1 fell {change}."
    return f"On {of} pass@1 rose as well, {change}."


def explanation(content: Mapping[str, Any]) -> str:
    """By how much, how sure, and how much evaluation would settle it."""
    samples = content["samples_per_problem"]
    if "tuned" not in content:
        return f"Over {content['problems']} held-out problems with {samples} samples each."
    difference = content["difference"]
    low, high = difference["ci95"]
    text = (
        f"The difference is {points(difference['pass_at_1'])}; the 95{NBSP}% interval goes from {bare(low)} to "
        f"{points(high)}, over {content['problems']} held-out problems with {samples} samples of each model. "
    )
    if not content["within_noise"]:
        text += "Zero is outside the interval, so the change is more than luck of the samples and problems."
        return f"{text} {one_training(content)}"
    text += f"Zero is inside: an evaluation of this size finds only differences of {_shown(content)} or more. "
    needed = content["problems_to_settle"]
    if needed is None:
        return text + "The measured difference is exactly zero, so no size of evaluation is sure to settle it."
    return text + f"About {number(needed)} problems would settle whether a difference as large as this one is real."


def one_training(content: Mapping[str, Any]) -> str:
    """How far the result reaches: to the one model that was measured."""
    this = "adapter" if content["kind"] == "adapter" else "model"
    seeds = content["training_seeds"]
    trained = f"It was trained once, with seed {seeds[0]}" if seeds else "It is one trained model"
    return f"{trained}: the interval is for this {this} and says nothing of what GRPO would gain with another seed."


def _shown(content: Mapping[str, Any]) -> str:
    return size(content["minimum_detectable"])


def regression_sentence(content: Mapping[str, Any]) -> str:
    """The regression problems' figures in full."""
    found = content["regression"]
    if "tuned" not in found:
        return f"pass@1 on {found['problems']} problems of another kind, which were never trained on."
    low, high = found["difference"]["ci95"]
    return (
        f"{found['problems']} problems of another kind, never trained on: a gain that costs elsewhere shows here. The "
        f"difference is {points(found['difference']['pass_at_1'])}, 95{NBSP}% interval {bare(low)} to {points(high)}; "
        f"a change of less than {size(found['minimum_detectable'])} would often be missed."
    )


def hidden_sentence(hidden: Mapping[str, Any]) -> str:
    """Whether what fails hidden tests looks like reward hacking or like weak visible tests."""
    failed = sum(hidden[model]["failed_hidden"] for model in MODELS if model in hidden)
    if not failed:
        return "No sample that passes the visible tests fails a hidden one."
    if "growth" not in hidden:
        return "The visible tests are weaker than the task: they accept programs that are wrong."
    grown = hidden["growth_of_share"]
    if grown is None:
        return "Only one of the models passes visible tests, so nothing can be said of how the missed share changed."
    low, high = grown["ci95"]
    of = "Of the samples that pass the visible tests, the share that fails a hidden one"
    between = f"by {points(grown['share'])}, 95{NBSP}% interval {bare(low)} to {points(high)}"
    if looks_like_hacking(hidden):
        return f"{of} grew with training beyond noise ({between}): that looks like reward hacking, so read the code."
    if high < 0:
        return f"{of} shrank with training ({between}): what is left points to weak visible tests."
    return (
        f"{of} did not change beyond noise ({between}): that points to weak visible tests, which accept wrong "
        "programs of both models, rather than to reward hacking."
    )


def looks_like_hacking(hidden: Mapping[str, Any] | None) -> bool:
    """Whether what passes the visible tests fails hidden ones more often after training, beyond noise."""
    grown = (hidden or {}).get("growth_of_share")
    return bool(grown and grown["ci95"][0] > 0)


def hidden_source(hidden: Mapping[str, Any]) -> str:
    """Where the hidden tests come from, and what that means."""
    text = f"{hidden['problems']} problems have tests that were never rewarded"
    if not hidden["generated"]:
        return f"{text}; they come with the data set."
    which = "all of them" if hidden["generated"] == hidden["problems"] else f"{hidden['generated']} of them"
    return (
        f"{text}; for {which} they are generated: mutated inputs with the reference's answers. So a program may also "
        "fail one where the task leaves the answer open."
    )


def _trained_on(told: Mapping[str, Any]) -> list[str]:
    """What a reader must know of problems that the model, or one before it in its series, was trained on."""
    found = []
    if told["left_out"]:
        found.append(f"{len(told['left_out'])} held-out problems were left out: a run before this one trained on them.")
    if told["measured"]:
        found.append(
            f"{len(told['measured'])} of the problems were trained on: what the tuned model does there says nothing of "
            "problems that it never saw."
        )
    if not told["complete"]:
        found.append("What this model was trained on is not known in full: these problems may be among it.")
    return found


def warnings(content: Mapping[str, Any]) -> list[str]:
    """What limits the result, one sentence each."""
    found = []
    if content["dropped"]:
        found.append(f"{len(content['dropped'])} problems were left out: the sandbox could not judge them.")
    if lost := (content["regression"] or {}).get("dropped"):
        found.append(f"{len(lost)} regression problems were left out: the sandbox could not judge them.")
    found += _trained_on(content["trained_on"])
    missing = content["requested_problems"] - content["problems"] - len(content["dropped"])
    if missing > 0:
        found.append(f"{content['requested_problems']} problems were asked for; the held-out pool has {missing} fewer.")
    for model in models_in(content):
        if content[model]["truncated"] > MANY_TRUNCATED:
            share = percent(content[model]["truncated"], 0)
            found.append(f"{share} of the {NAMES[model]}'s completions were truncated: raise max_completion_length.")
    if looks_like_hacking(content["hidden_tests"]):
        found.append(
            "More of what passes the visible tests fails hidden ones after training than before: see Hidden tests."
        )
    return found
