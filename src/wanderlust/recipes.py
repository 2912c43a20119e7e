"""The only home of tuned numbers: (recipe, environment, method, skills) -> configuration.

`paper` is the published setting; `fast` gets good skills soonest on one GPU, `laptop` on two CPU cores.
"""

import dataclasses
import functools
import typing
from collections.abc import Callable
from typing import Any

from wanderlust.config import (
    BodyConfig,
    BodyName,
    LinearizerConfig,
    PointConfig,
    RunConfig,
    SacConfig,
    ScheduleConfig,
    SkillConfig,
    SmmConfig,
    StageConfig,
    Variant,
    method_config,
)
from wanderlust.envs import make_world
from wanderlust.errors import UserError
from wanderlust.methods import View, parse_method

DEFAULT = "laptop"
BODIES: tuple[BodyName, ...] = typing.get_args(BodyName)

DESCRIPTIONS = {
    "paper": "the published numbers, for science",
    "fast": "good skills soonest on one GPU",
    "laptop": "good skills soonest on two CPU cores, for everything else",
}


AUTO_ALPHA = ("diayn", "dads", "visr", "aps", "vic", "linearizer")
"""The paper adjusts these methods' alpha by itself; LSD's is fixed, and so is that of the grid it is taken apart in."""


def _alpha(name: str, lsd: float, metra: float, csd: float) -> dict[str, Any]:
    """SAC's entropy coefficient for a method: fixed, or where it starts if it is learned."""
    if name in AUTO_ALPHA:
        return {"alpha": 0.01, "learn_alpha": True}
    return {"alpha": {"metra": metra, "csd": csd}.get(name, lsd), "learn_alpha": False}


def _point_paper(name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """The appendix's numbers for PointEnv, and choices of our own where it is silent (`docs/point-goals.md`).

    Said there: two layers of 128 units, 5,000 epochs of 50 episodes of 10 steps, four minibatches of 500. As in the
    released code: two whole-collection steps of phi, one target update an epoch, the time limit flagged terminal.
    Chosen: learning rates (one third for phi or q, as on the robots), alpha 0.003 for LSD out of the paper's search
    range and auto-adjusted for DIAYN as on Ant, states normalised as on the robots.
    """
    return RunConfig(
        env=PointConfig(),
        method=method_config(name, view, hidden=(128, 128), learning_rate=3e-4),
        skills=skills,
        sac=SacConfig(
            hidden=(128, 128),
            policy_learning_rate=1e-3,
            critic_learning_rate=1e-3,
            alpha_learning_rate=1e-3,
            **_alpha(name, lsd=0.003, metra=0.01, csd=0.003),
        ),
        schedule=ScheduleConfig(epochs=5000, worlds=50, steps=10, sac_steps=4, sac_batch=500, method_steps=2),
        recipe="paper",
    )


def _point_laptop(name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """Smaller networks, a short horizon, targets moved at every step, no terminal flag at the time limit.

    The short horizon and the larger alpha matter: actions live in a box, so the farthest-reaching policy goes to its
    corners only; with some entropy a skill keeps a direction of its own. Random starts make goals reachable from
    anywhere.
    """
    rate = 1e-3
    return RunConfig(
        env=PointConfig(start_range=10.0),
        method=method_config(name, view, hidden=(64, 64), learning_rate=rate),
        skills=skills,
        sac=SacConfig(
            hidden=(64, 64),
            policy_learning_rate=rate,
            critic_learning_rate=rate,
            alpha_learning_rate=rate,
            discount=0.9,
            **_alpha(name, lsd=0.03, metra=0.1, csd=0.01),
            target_update="step",
            target_step=0.02,
            time_limit_is_terminal=False,
        ),
        schedule=ScheduleConfig(
            epochs=1000,
            worlds=50,
            steps=10,
            sac_steps=4,
            sac_batch=256,
            method_steps=4,
            method_batch=256,
            order="interleaved",
            replay_collections=4,
        ),
        recipe="laptop",
        log_every=25,
        checkpoint_every=250,
    )


@dataclasses.dataclass(frozen=True)
class _Published:
    """The released commands' numbers that differ between bodies; the rest is in `_body_paper`."""

    episode_length: int = 200
    episodes: int = 20
    """Per epoch."""
    policy_rate: float = 1e-4
    phi_rate: float = 3e-5
    alpha_continuous: float = 0.01
    alpha_discrete: float = 0.01
    alive_bonus: float = 0.0
    epochs: int = 100_000
    replay: bool = False


_PUBLISHED = {
    "ant": _Published(alpha_discrete=0.003),
    "half-cheetah": _Published(),
    "humanoid": _Published(1000, 5, 3e-4, 1e-4, 0.03, 0.03, alive_bonus=0.03, epochs=200_000, replay=True),
}


def _body_paper(env: BodyName, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """The published numbers: on-policy, an epoch of whole episodes, four SAC steps and two of phi, one target update.

    Humanoid alone keeps a replay of a million transitions and learns from 10,000 on. Its model keeps the file's PGS
    solver, so this recipe runs on the engine `c`.
    """
    p = _PUBLISHED[env]
    collection = p.episodes * p.episode_length
    # the appendix names a rate of their own for LSD, DIAYN and DADS only
    rate = p.policy_rate if name in ("visr", "aps") else p.phi_rate
    return RunConfig(
        env=BodyConfig(env, p.episode_length, solver="stock"),
        method=method_config(name, view, learning_rate=rate),
        skills=skills,
        sac=SacConfig(
            policy_learning_rate=p.policy_rate,
            critic_learning_rate=p.policy_rate,
            alpha_learning_rate=p.policy_rate,
            **_published_alpha(env, name, skills),
            alive_bonus=0.0 if name == "dads" else p.alive_bonus,
        ),
        schedule=ScheduleConfig(
            epochs=p.epochs,
            worlds=p.episodes,
            steps=p.episode_length,
            sac_steps=4,
            sac_batch=2048,
            method_steps=2,
            method_batch=2048 if p.replay else 0,
            replay_collections=1_000_000 // collection if p.replay else 1,
            collect="episodes" if p.replay else "steps",
            learn_from=10_000 if p.replay else 1,
        ),
        recipe="paper",
        engine="c",
        driver="split",
        log_every=10,
        look_every=10,
        checkpoint_every=1000,
    )


def _published_alpha(env: BodyName, name: str, skills: SkillConfig) -> dict[str, Any]:
    p = _PUBLISHED[env]
    if env == "ant" and skills.kind == "continuous" and skills.size == 5 and name in ("dads", "diayn"):
        return {"alpha": {"dads": 0.03, "diayn": 0.3}[name]}
    return _alpha(name, p.alpha_continuous if skills.kind == "continuous" else p.alpha_discrete, 0.01, 0.003)


def _metra_paper(env: BodyName, view: Variant, skills: SkillConfig) -> RunConfig:
    """METRA's own published numbers for bodies: few steps of collection, many small updates from a large replay."""
    base = _body_paper(env, "lsd", view, skills)
    rate, steps = 1e-4, 50
    return dataclasses.replace(
        base,
        method=method_config("metra", view, learning_rate=rate),
        sac=dataclasses.replace(
            base.sac,
            policy_learning_rate=rate,
            critic_learning_rate=rate,
            alpha_learning_rate=rate,
            alpha=0.01,
            learn_alpha=True,
            target_update="step",
        ),
        schedule=dataclasses.replace(
            base.schedule,
            worlds=8,
            sac_steps=steps,
            sac_batch=256,
            method_steps=steps,
            method_batch=256,
            order="interleaved",
            replay_collections=1_000_000 // (8 * base.env.episode_length),
            learn_from=10_000,
        ),
    )


def _csd_paper(env: BodyName, view: Variant, skills: SkillConfig) -> RunConfig:
    """CSD's own published numbers for bodies. Its reward is multiplied by 10 there; here alpha is divided by it."""
    base = _body_paper(env, "lsd", view, skills)
    alpha = {"ant": 0.003, "half-cheetah": 0.01, "humanoid": 0.03}[env]
    rate, hidden = (3e-4, (1024, 1024)) if env == "humanoid" else (1e-4, (512, 512))
    worlds = 5 if env == "humanoid" else 10
    return dataclasses.replace(
        base,
        method=method_config("csd", view, hidden=hidden, learning_rate=rate),
        sac=dataclasses.replace(
            base.sac,
            hidden=hidden,
            policy_learning_rate=rate,
            critic_learning_rate=rate,
            alpha_learning_rate=rate,
            alpha=alpha,
            target_update="step",
            alive_bonus=0.0,
        ),
        schedule=dataclasses.replace(
            base.schedule, worlds=worlds, sac_steps=64, sac_batch=1024, method_steps=32, method_batch=1024
        ),
    )


@dataclasses.dataclass(frozen=True)
class _Exploration:
    """What rewards of SMM are weighed by and against."""

    density_weight: float
    alpha: float
    alive_bonus: float = 0.0


_EXPLORATION = {
    "point": _Exploration(0.15, 3.0),
    "ant": _Exploration(0.5, 1.0),
    "half-cheetah": _Exploration(0.5, 1.0),
    "humanoid": _Exploration(0.05, 3.0, alive_bonus=30.0),
}
"""The appendix's for Ant and Humanoid; HalfCheetah, which it does not run, takes Ant's."""
SMM_SKILLS, EDL_SKILLS = 4, 10
"""How many there are unless said: those of EDL's code."""


def _exploring(config: RunConfig) -> RunConfig:
    """SMM in a recipe: its own weights, alpha and alive bonus, one start, and a replay that remembers for long.

    A replay of the last collections would forget what has been visited, and the density with it.
    """
    e, schedule, method = _EXPLORATION[config.env.name], config.schedule, config.method
    assert isinstance(method, SmmConfig)
    remembered = max(schedule.replay_collections, 100_000 // schedule.collection)
    drawn = schedule.method_batch or schedule.sac_batch
    return dataclasses.replace(
        _one_start(config),
        method=dataclasses.replace(method, density_weight=e.density_weight),
        sac=dataclasses.replace(config.sac, alpha=e.alpha, learn_alpha=False, alive_bonus=e.alive_bonus),
        schedule=dataclasses.replace(schedule, replay_collections=remembered, method_batch=drawn),
    )


def _one_start(config: RunConfig) -> RunConfig:
    """Goals that exploration found can be reached from where it began."""
    return with_random_start(config, 0.0) if isinstance(config.env, PointConfig) else config


def _smm_paper(env: BodyName, view: Variant, skills: SkillConfig) -> RunConfig:
    """SMM as EDL's code runs it, which the appendix says it used: networks of 128 units, small batches from a replay of
    a million, as many updates as environment steps, a value beyond the time limit.
    """
    base = _body_paper(env, "lsd", view, skills)
    rate, hidden, collection = 1e-3, (128, 128, 128), base.schedule.collection
    return dataclasses.replace(
        base,
        method=method_config("smm", view, hidden=hidden, learning_rate=rate, density_learning_rate=1e-2),
        sac=dataclasses.replace(
            base.sac,
            hidden=hidden,
            policy_activation="relu",
            policy_learning_rate=rate,
            critic_learning_rate=rate,
            alpha_learning_rate=rate,
            target_update="step",
            time_limit_is_terminal=False,
        ),
        schedule=dataclasses.replace(
            base.schedule,
            sac_steps=collection,
            sac_batch=128,
            method_steps=collection,
            method_batch=128,
            order="interleaved",
            replay_collections=1_000_000 // collection,
            learn_from=1000,
        ),
    )


def _edl(recipe: str, env: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """Half of a recipe's epochs explore, the other half learn skills, with the recipe's SAC and schedule.

    The VQ-VAE has the numbers of EDL's code, and fewer, larger steps where they would take longer than all the rest.
    """
    explore = get_recipe(recipe, env, f"smm-{view}" if view else "smm", SkillConfig("discrete", SMM_SKILLS))
    last = _one_start(RECIPES[recipe, env]("lsd", view, skills))
    epochs = last.schedule.epochs
    first = dataclasses.replace(explore.schedule, epochs=epochs // 2)
    method = method_config(
        "edl",
        view,
        hidden=(128, 128),
        learning_rate=2e-4 if recipe == "paper" else 1e-3,
        code_steps=50_000 if recipe != "laptop" else 5_000,
        first=StageConfig(explore.method, explore.skills, explore.sac, first),
    )
    # a reward that is never above 0 would be best served by falling at once
    sac = dataclasses.replace(
        last.sac, alpha=0.3 if env == "point" else 0.1, alive_bonus=10.0 if env == "humanoid" else 0.0
    )
    if (recipe, env) == ("laptop", "point"):
        sac = dataclasses.replace(sac, discount=0.8, critic_learning_rate=3e-3, target_step=0.05)
    schedule = dataclasses.replace(last.schedule, epochs=epochs - epochs // 2)
    return dataclasses.replace(last, method=method, sac=sac, schedule=schedule)


BLOCK, POINT_BLOCK = 10, 2
"""Steps for which the upper level of IBOL sets a goal; PointEnv's episodes are of ten steps in all."""


def _linearizing(config: RunConfig) -> RunConfig:
    """A linearizer in a recipe: goals as long as what is seen of a state, collections of whole blocks, one start."""
    config, method = _one_start(config), config.method
    assert isinstance(method, LinearizerConfig)
    block = BLOCK if config.env.name in BODIES else POINT_BLOCK
    seen = View(make_world(config.env).spec, method.view).method_dim
    standardise = method.view.endswith("o") and config.env.name != "humanoid"
    return dataclasses.replace(
        config,
        # as in IBOL's code, one goal an episode; but the upper level will set another in every block
        method=dataclasses.replace(
            method, block=block, hold=0 if config.recipe == "paper" else block, standardise=standardise
        ),
        # others are refused when the method is made
        skills=config.skills if config.skills.kind == "discrete" else SkillConfig("box", seen),
        sac=dataclasses.replace(config.sac, alpha=0.1),
        schedule=_in_whole_blocks(config.schedule, block),
    )


def _in_whole_blocks(schedule: ScheduleConfig, block: int) -> ScheduleConfig:
    """Collections that cut no block, with about as many environment steps and updates in all."""
    steps = max(block, schedule.steps // block * block)
    longer = steps / schedule.steps

    def scaled(count: int, factor: float) -> int:
        return max(1, round(count * factor))

    return dataclasses.replace(
        schedule,
        steps=steps,
        epochs=scaled(schedule.epochs, 1 / longer),
        sac_steps=scaled(schedule.sac_steps, longer),
        method_steps=scaled(schedule.method_steps, longer),
        replay_collections=scaled(schedule.replay_collections, 1 / longer),
    )


def _linearizer_paper(env: BodyName, view: Variant, skills: SkillConfig) -> RunConfig:
    """The lower level as IBOL's code and the appendix have it: ten episodes an epoch, rates of 3e-4.

    -o, which is IBOL's own setting: batches as large as a collection, standardised rewards, a discount of 0.995.
    Without: batches of 1,024. Humanoid learns from its replay either way.
    """
    base = _body_paper(env, "linearizer", view, skills)
    rate, replay = 3e-4, base.schedule.collect == "episodes"
    worlds = base.schedule.worlds if replay else 10
    omits = view.endswith("o")
    batch = 2048 if replay else worlds * base.schedule.steps if omits else 1024
    return dataclasses.replace(
        base,
        sac=dataclasses.replace(
            base.sac,
            policy_learning_rate=rate,
            critic_learning_rate=rate,
            alpha_learning_rate=rate,
            discount=0.995 if omits and not replay else 0.99,
        ),
        schedule=dataclasses.replace(base.schedule, worlds=worlds, sac_batch=batch, method_steps=1),
    )


@dataclasses.dataclass(frozen=True)
class _Upper:
    """The upper level of IBOL in a recipe."""

    share: float
    """Of the epochs that the recipe has for a linearizer by itself, those that the lower level gets."""
    epochs: int
    """So many that both levels together make about as many environment steps as other methods."""
    worlds: int
    updates: int = 4
    batch: int = 64
    """Trajectories of a gradient step."""
    hidden: tuple[int, ...] = (512, 512)
    rate: float = 1e-4
    alternatives: int = 100


_UPPER = {
    ("paper", "point"): _Upper(0.5, 2000, worlds=64, hidden=(128, 128), rate=3e-4),
    ("laptop", "point"): _Upper(0.5, 400, worlds=64, hidden=(64, 64), rate=1e-3, alternatives=20),
    ("paper", "ant"): _Upper(1.0, 10_000, worlds=64),
    ("paper", "half-cheetah"): _Upper(1.0, 10_000, worlds=64),
    ("paper", "humanoid"): _Upper(1.5, 10_000, worlds=32, batch=32),
    **{("fast", body): _Upper(0.6, 240, 1024, updates=200, batch=256, rate=3e-4) for body in ("ant", "half-cheetah")},
    ("fast", "humanoid"): _Upper(0.6, 40, 1024, updates=200, batch=256, rate=3e-4),
    **{("laptop", body): _Upper(0.6, 250, 64, hidden=(128, 128), rate=3e-4, alternatives=20) for body in BODIES},
}
"""On bodies `paper` is what IBOL's code has; the other numbers are our own."""


def _ibol(recipe: str, env: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """A linearizer, then the upper level over it; both see the same worlds on the same engine."""
    lower = get_recipe(recipe, env, f"linearizer-{view}" if view else "linearizer", SkillConfig())
    u = _UPPER[recipe, env]
    first = dataclasses.replace(lower.schedule, epochs=round(u.share * lower.schedule.epochs))
    method = method_config(
        "ibol",
        view,
        hidden=u.hidden,
        learning_rate=u.rate,
        alternatives=u.alternatives,
        first=StageConfig(lower.method, lower.skills, lower.sac, first),
    )
    schedule = ScheduleConfig(
        epochs=u.epochs,
        worlds=u.worlds,
        steps=lower.env.episode_length,
        sac_steps=u.updates,
        sac_batch=u.batch,
        method_steps=u.updates,
        order="joint",
        collect="episodes",
    )
    return dataclasses.replace(lower, method=method, skills=skills, schedule=schedule)


@dataclasses.dataclass(frozen=True)
class _Fast:
    """What differs between bodies in `fast`."""

    worlds: int = 8192
    steps: int = 25
    updates: int = 1000
    replay_collections: int = 8
    rate: float = 1e-3
    phi_rate: float = 1e-3
    discount: float = 0.97
    target_step: float = 0.05
    alpha: float = 0.01
    alpha_discrete: float = 0.01
    alive_bonus: float = 0.0
    position_scale: float = 1.0
    epochs: int = 600
    log_every: int = 2
    look_every: int = 5


_FAST = {
    "ant": _Fast(),
    "half-cheetah": _Fast(position_scale=250.0),
    # A body that falls needs to try what it has learned at once: 16 updates a step, not 1,000 after 25. And it needs to
    # see its balance: a metre is ten of its random policy's standard deviations, so that a few metres away a position
    # is all that its networks would see. Divided by 800 it is one 100 m away.
    "humanoid": _Fast(
        worlds=4096,
        steps=2,
        updates=32,
        replay_collections=128,
        rate=5e-4,
        phi_rate=3e-4,
        discount=0.99,
        target_step=0.02,
        alpha=0.03,
        alive_bonus=0.3,
        position_scale=800.0,
        epochs=12_000,
        log_every=50,
        look_every=6,
    ),
}


def _body_fast(env: BodyName, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """What gets far-reaching skills soonest on one GPU (`docs/speed.md` has what was tried).

    Thousands of worlds a few steps at a time, since a physics step costs almost the same for one world and for
    thousands; many updates from the last collections; learning rates ten times the published ones, which normalised
    critics and quickly moving targets allow; a short horizon, which is enough for rewards that come at every step.
    """
    f = _FAST[env]
    alpha = f.alpha if skills.kind == "continuous" else f.alpha_discrete
    return RunConfig(
        env=BodyConfig(env, _PUBLISHED[env].episode_length),
        method=method_config(name, view, hidden=(256, 256), learning_rate=f.phi_rate),
        skills=skills,
        sac=SacConfig(
            hidden=(512, 512),
            policy_learning_rate=f.rate,
            critic_learning_rate=f.rate,
            alpha_learning_rate=f.rate,
            **_alpha(name, lsd=alpha, metra=4 * alpha, csd=alpha),
            alive_bonus=0.0 if name == "dads" else f.alive_bonus,
            position_scale=f.position_scale,
            discount=f.discount,
            target_update="step",
            target_step=f.target_step,
            time_limit_is_terminal=False,
            critic_layer_norm=True,
        ),
        schedule=ScheduleConfig(
            epochs=f.epochs,
            worlds=f.worlds,
            steps=f.steps,
            sac_steps=f.updates,
            sac_batch=8192,
            method_steps=f.updates,
            order="joint",
            replay_collections=f.replay_collections,
        ),
        recipe="fast",
        engine="warp",
        precision="bfloat16",
        log_every=f.log_every,
        look_every=f.look_every,
        checkpoint_every=50 * f.log_every,
    )


def _body_laptop(env: BodyName, name: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """What two to eight CPU cores can do: the same with smaller networks and batches, and 64 worlds.

    On two cores physics and learning take about as long as each other.
    """
    fast, p = _body_fast(env, name, view, skills), _PUBLISHED[env]
    return dataclasses.replace(
        fast,
        method=dataclasses.replace(fast.method, hidden=(128, 128)),
        sac=dataclasses.replace(fast.sac, hidden=(256, 256)),
        schedule=dataclasses.replace(
            fast.schedule,
            epochs=2500,
            worlds=64,
            steps=p.episode_length // 4,
            sac_steps=32,
            sac_batch=512,
            method_steps=32,
            replay_collections=40,
        ),
        recipe="laptop",
        engine="c",
        driver="split",
        precision="float32",
        log_every=10,
        look_every=5,
        checkpoint_every=250,
    )


def _for(
    body: BodyName, recipe: Callable[[BodyName, str, Variant, SkillConfig], RunConfig]
) -> Callable[[str, Variant, SkillConfig], RunConfig]:
    return functools.partial(recipe, body)


RECIPES: dict[tuple[str, str], Callable[[str, Variant, SkillConfig], RunConfig]] = {
    ("paper", "point"): _point_paper,
    ("laptop", "point"): _point_laptop,
    **{("paper", body): _for(body, _body_paper) for body in BODIES},
    **{("fast", body): _for(body, _body_fast) for body in BODIES},
    **{("laptop", body): _for(body, _body_laptop) for body in BODIES},
}

_OTHER_PAPERS: dict[str, Callable[[BodyName, Variant, SkillConfig], RunConfig]] = {
    "metra": _metra_paper,
    "csd": _csd_paper,
    "smm": _smm_paper,
    "linearizer": _linearizer_paper,
}
"""On bodies `paper` is what their own authors published: two came after the LSD paper, one it ran with its own code."""

ENVIRONMENTS = tuple(sorted({env for _, env in RECIPES}))


def get_recipe(recipe: str, env: str, method: str, skills: SkillConfig) -> RunConfig:
    """The configuration of a recipe; `method` as a user writes it, e.g. ``diayn-xyo``."""
    name, view = parse_method(method)
    if env not in ENVIRONMENTS:
        raise UserError(f"unknown environment {env!r}; known: {', '.join(ENVIRONMENTS)}")
    if (recipe, env) not in RECIPES:
        known = ", ".join(r for r, e in RECIPES if e == env)
        raise UserError(f"there is no recipe {recipe!r} for {env}; known: {known}")
    if name == "metra" and skills.kind == "continuous":
        skills = dataclasses.replace(skills, unit_length=True)
    if name in ("edl", "ibol"):
        return (_edl if name == "edl" else _ibol)(recipe, env, view, skills)
    if recipe == "paper" and name in _OTHER_PAPERS and env in BODIES:
        config = _OTHER_PAPERS[name](env, view, skills)
    else:
        config = RECIPES[recipe, env](name, view, skills)
    adjust = {"vic": _one_reward_an_episode, "smm": _exploring, "linearizer": _linearizing}.get(name)
    return adjust(config) if adjust else config


def usual_skills(method: str) -> SkillConfig:
    """The skills of a method, as a user writes it, unless something else is asked for."""
    count = {"smm": SMM_SKILLS, "edl": EDL_SKILLS}.get(parse_method(method)[0])
    return SkillConfig("discrete", count) if count else SkillConfig()


def _one_reward_an_episode(config: RunConfig) -> RunConfig:
    """A reward at the last step must reach the first one: a horizon of one episode, which is all there is."""
    discount = 1.0 - 1.0 / config.env.episode_length
    sac = dataclasses.replace(config.sac, discount=discount, time_limit_is_terminal=True)
    return dataclasses.replace(config, sac=sac)


def with_random_start(config: RunConfig, start_range: float) -> RunConfig:
    """The same run with episodes that start anywhere in a box."""
    if not isinstance(config.env, PointConfig):
        raise UserError(f"{config.env.name} has one start; only point can start anywhere")
    return dataclasses.replace(config, env=dataclasses.replace(config.env, start_range=start_range))
