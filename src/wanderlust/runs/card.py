"""The card of a zoo entry: facts (card.json), and the same for people (card.md)."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wanderlust.evaluation.metrics import MEASURES
from wanderlust.runs.entries import PREFIX, one_line
from wanderlust.runs.run import Run
from wanderlust.runs.zoo import FORMAT

PROBES = 1000
"""Observations over which the deviation of the stored weights is measured."""
LONGEST_CELL = 2000
"""Characters in a cell of a card: whole commands; what a stranger may have put there is cut off."""
ON_CARD = ("coverage_mode", "coverage_sampled", "travelled", "distance", "survived")
"""Measures of the evaluation that a card repeats."""


def facts_of(run: Run, name: str, seed: int, epoch: int, evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """What a card says, as far as the run's own files say it."""
    config = run.config
    made_by = run.provenance()
    counts = run.counts(epoch)
    per_seed = {measure: evaluation["metrics"][measure]["per_seed"] for measure in ON_CARD}
    skills = f"{config.skills.size}{'-D' if config.skills.kind == 'continuous' else ' discrete'} skills"
    changing = f", another every {config.schedule.hold} steps in training" if config.schedule.hold else ""
    note = one_line(made_by.get("note") or "", LONGEST_CELL)
    made = f"by {config.rewards}{changing}, recipe {config.recipe}{', then taught more (its card)' if note else ''}"
    return {
        "format": FORMAT,
        "name": name,
        "summary": f"{skills} of {config.env.name} {made}: {round(per_seed['coverage_mode'][seed]):,} bins",
        "env": config.env.name,
        "method": config.rewards,
        "skills": skills,
        "recipe": config.recipe,
        "seed": config.seed + seed,
        "seeds": config.seeds,
        "best": seed == best_seed(evaluation),
        "epoch": epoch,
        "env_steps": int(evaluation["env_steps"]),
        "engine": config.engine,
        "precision": config.precision,
        "train_seconds": counts.train_seconds if counts else None,
        "seconds": counts.seconds if counts else None,
        "command": without_folders(made_by.get("command") or ""),
        "note": note,
        "resumed": len(made_by.get("resumed") or []),
        "began_with": _beginning(made_by.get("began_with")),
        "commit": made_by.get("commit"),
        "time": made_by.get("time"),
        "device": made_by.get("device") or {},
        "versions": made_by.get("versions") or {},
        "evaluated": {"episodes": evaluation.get("episodes"), "engine": evaluation.get("engine")},
        "metrics": {measure: values[seed] for measure, values in per_seed.items()},
        "mean_of_seeds": {measure: float(np.mean(values)) for measure, values in per_seed.items()},
    }


def best_seed(evaluation: Mapping[str, Any]) -> int:
    """The seed whose mode actions cover most."""
    return int(np.argmax(evaluation["metrics"]["coverage_mode"]["per_seed"]))


def _beginning(before: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The run before, with whose networks this one began, if there was one; and the one before that."""
    if before is None:
        return None
    command, earlier = without_folders(before.get("command") or ""), _beginning(before.get("began_with"))
    return {**before, "command": command, "began_with": earlier}


def without_folders(command: str) -> str:
    """A command line without the folders in it: they say where, not what was done."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()

    def bare(word: str) -> str:
        flag, equals, value = word.partition("=")
        if equals and "/" not in flag:
            return f"{flag}={Path(value).name if '/' in value else value}"
        return Path(word).name if "/" in word else word

    return shlex.join(map(bare, words))


def _in_words(before: Mapping[str, Any]) -> str:
    """What a run began with, in words."""
    steps = f", {before['env_steps']:,} environment steps" if isinstance(before.get("env_steps"), int) else ""
    said = f"the networks of `{before['command'] or 'an unknown run'}` at epoch {before['epoch']}{steps}"
    return f"{said}, which began with {_in_words(before['began_with'])}" if before.get("began_with") else said


FILM = "film.gif"


def render(facts: Mapping[str, Any], goal: str, film: bool = False) -> str:
    """card.md: the facts as a model card.

    `goal` is an example of flags for `reach`, empty where it cannot be used; `film` is whether there is one.
    """
    device, several = facts["device"], facts["seeds"] > 1
    machine = f"{device.get('kind', 'unknown')}, {device.get('cpu_cores', '?')} CPU cores"
    choice = f"the best of {facts['seeds']} by bins covered" if facts["best"] else f"one of {facts['seeds']}"
    rows = {
        "command": f"`{facts['command'] or 'unknown'}`"
        + (f", resumed {facts['resumed']} x" if facts["resumed"] else ""),
        **({"began with": _in_words(facts["began_with"])} if facts.get("began_with") else {}),
        "commit": f"`{facts['commit']}`" if facts["commit"] else "unknown (an installed package)",
        "started": facts["time"] or "unknown",
        "machine": machine,
        "versions": ", ".join(f"{k} {v}" for k, v in facts["versions"].items() if v) or "unknown",
        "seed": f"{facts['seed']}, {choice if several else 'the only one of its run'}",
        "environment steps": f"{facts['env_steps']:,} (epoch {facts['epoch']:,})",
        "training": _seconds(facts["train_seconds"]) + (f", {facts['seeds']} seeds side by side" if several else ""),
        "with compilation and coverage": _seconds(facts["seconds"]),
        "physics, precision": f"`{facts['engine']}`, {facts['precision']}",
    }
    head = ["measure", "this seed", *(["mean of all seeds"] if several else [])]
    means = facts["mean_of_seeds"]
    measures = [[MEASURES[m], _number(facts["metrics"][m]), *([_number(means[m])] if several else [])] for m in ON_CARD]
    stored, deviation = facts["stored"], facts["deviation"]
    network = next((f", the method's network in {kind}" for name, kind in stored.items() if name != "policy"), "")
    lines = [
        f"# {facts['name']}",
        "",
        f"{facts['skills']} of `{facts['env']}`, discovered without a reward by `{facts['method']}` "
        f"(recipe `{facts['recipe']}`).",
        *(["", facts["note"]] if facts.get("note") else []),
        "",
        *_pictures(facts, film),
        "",
        "## Measures",
        "",
        f"Over {facts['evaluated']['episodes']} episodes of random skills, with the engine "
        f"`{facts['evaluated']['engine']}`, before the weights were stored.",
        "",
        *markdown_table(head, measures),
        "",
        "## Use",
        "",
        "```python",
        "import wanderlust",
        "",
        f'skills = wanderlust.load("{PREFIX}{facts["name"]}")',
        "z = skills.sample(1)[0]",
        "action = skills.act(obs, z)  # obs as the environment gives it",
        "```",
        "",
        "```sh",
        f"wanderlust evaluate {PREFIX}{facts['name']}",
        f"wanderlust video {PREFIX}{facts['name']}",
        *([f"wanderlust reach {PREFIX}{facts['name']} {goal}"] if goal else []),
        "```",
        "",
        "## How it was made",
        "",
        *markdown_table(["", ""], [[key, value] for key, value in rows.items()]),
        "",
        "## Files",
        "",
        f"`skills.safetensors` ({facts['bytes'] / 1e6:.2f} MB, {facts['parameters']:,} numbers): the policy in "
        f"{stored['policy']}{network}. Against the weights as trained, over {PROBES:,} observations, mode actions "
        f"differ by at most {deviation['action']:.1e}, and differences of phi by at most {deviation['step']:.1e} of "
        "the distance between the states. `config.json` is the run's configuration with this seed alone; `card.json` "
        "holds the facts of this page.",
    ]
    return "\n".join(lines) + "\n"


def _pictures(facts: Mapping[str, Any], film: bool) -> list[str]:
    """Where skills go, and beside it what that looks like."""
    said = f"Where {facts['evaluated']['episodes']} random skills go"
    drawn = f'<img src="trajectories.png" alt="{said}" height="320">'
    if not film:
        return [f"![{said}](trajectories.png)"]
    shown = f'<img src="{FILM}" alt="Skills side by side, filmed" height="320">'
    return [f"| {said} | Skills side by side |", "| --- | --- |", f"| {drawn} | {shown} |"]


def _seconds(x: float | None) -> str:
    return "unknown" if x is None else f"{x:,.0f} s"


def _number(x: float) -> str:
    return f"{x:,.2f}" if abs(x) < 100 else f"{x:,.0f}"


def markdown_table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of a table; what is in a cell may come from a stranger."""
    safe = [[one_line(cell, LONGEST_CELL).replace("|", "\\|") for cell in row] for row in (head, *rows)]
    cells = [safe[0], ["---"] * len(head), *safe[1:]]
    return [f"| {' | '.join(row)} |" for row in cells]
