"""The linearizer and IBOL, in whatever recipe."""

import dataclasses

from wanderlust.config import RunConfig, ScheduleConfig, SkillConfig, StageConfig, Variant, method_config
from wanderlust.envs import make_world
from wanderlust.envs.names import focus_entries
from wanderlust.methods import View
from wanderlust.methods.ibol.linearizer import LinearizerConfig
from wanderlust.recipes.point import one_start
from wanderlust.recipes.published import body_paper
from wanderlust.recipes.sac import learning_rates


def linearizing(config: RunConfig) -> RunConfig:
    """A linearizer in a recipe: goals as long as what is seen of a state, collections of whole blocks, one start."""
    config, method = one_start(config), config.method
    assert isinstance(method, LinearizerConfig)
    # steps between two subgoals of IBOL; PointEnv's episodes are of ten steps in all
    block = min(2 if config.env.name == "point" else 10, max(1, config.env.episode_length // 2))
    world = make_world(config.env)
    seen = View(world.spec, method.view, focus=focus_entries(world, config.env.focus)).method_dim
    standardise = method.view.endswith("o") and config.env.name != "humanoid"
    return dataclasses.replace(
        config,
        # one goal an episode, as in IBOL's code: if goals change, swinging limbs to and fro pays better than walking
        method=dataclasses.replace(method, block=block, hold=0, standardise=standardise),
        # others are refused when the method is made
        skills=config.skills if config.skills.kind == "discrete" else SkillConfig("box", seen),
        sac=dataclasses.replace(config.sac, alpha=0.1),
        schedule=in_whole_blocks(config.schedule, block),
    )


def in_whole_blocks(schedule: ScheduleConfig, block: int) -> ScheduleConfig:
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


def linearizer_paper(env: str, view: Variant, skills: SkillConfig) -> RunConfig:
    """The lower level as IBOL's code and the appendix have it: ten episodes an epoch, rates of 3e-4.

    -o, which is IBOL's own setting: batches as large as a collection, standardised rewards, a discount of 0.995.
    Without: batches of 1,024. Humanoid learns from its replay either way.
    """
    base = body_paper(env, "linearizer", view, skills)
    replay = base.schedule.collect == "episodes"
    worlds = base.schedule.worlds if replay else 10
    omits = view.endswith("o")
    batch = 2048 if replay else worlds * base.schedule.steps if omits else 1024
    return dataclasses.replace(
        base,
        sac=dataclasses.replace(base.sac, **learning_rates(3e-4), discount=0.995 if omits and not replay else 0.99),
        schedule=dataclasses.replace(base.schedule, worlds=worlds, sac_batch=batch, method_steps=1),
    )


@dataclasses.dataclass(frozen=True)
class _Upper:
    """The high level of IBOL in a recipe."""

    share: float
    """Of the epochs that the recipe has for a linearizer by itself, those that the lower level gets."""
    epochs: int
    """So many that both levels together make about as many environment steps as other methods."""
    worlds: int
    updates: int = 4
    batch: int = 64
    """Trajectories of a gradient step. All steps of an epoch together go through what was collected four times, as in
    IBOL's code: REINFORCE takes it for what the policy does now. After fifty times goals had become all alike."""
    hidden: tuple[int, ...] = (512, 512)
    rate: float = 1e-4
    alternatives: int = 100
    baseline: bool = False
    """IBOL's code has none. With larger rates than its own goals became all alike without one."""


_UPPER: dict[tuple[str, str], _Upper] = {
    ("paper", "point"): _Upper(0.5, 2000, worlds=64, hidden=(128, 128), rate=3e-4),
    ("laptop", "point"): _Upper(0.5, 400, worlds=64, hidden=(64, 64), rate=1e-3, alternatives=20),
    ("paper", "ant"): _Upper(1.0, 10_000, worlds=64),
    ("paper", "half-cheetah"): _Upper(1.0, 10_000, worlds=64),
    ("paper", "humanoid"): _Upper(1.5, 10_000, worlds=32, batch=32),
    **{
        ("fast", body): _Upper(0.6, epochs, 256, updates=64, batch=16, rate=3e-4, baseline=True)
        for body, epochs in (("ant", 960), ("half-cheetah", 960), ("humanoid", 160))
    },
}
"""On bodies `paper` is what IBOL's code has; the other numbers are our own."""

_UPPER_ELSEWHERE = _Upper(
    0.6, 250, 64, updates=16, batch=16, hidden=(128, 128), rate=3e-4, alternatives=20, baseline=True
)
"""In `laptop`, of every body."""


def ibol(recipe: str, env: str, view: Variant, skills: SkillConfig, lower: RunConfig) -> RunConfig:
    """A linearizer, then the high level over it, in the same environments on the same engine."""
    u = _UPPER.get((recipe, env), _UPPER_ELSEWHERE)
    first = dataclasses.replace(lower.schedule, epochs=round(u.share * lower.schedule.epochs))
    method = method_config(
        "ibol",
        view,
        hidden=u.hidden,
        learning_rate=u.rate,
        alternatives=u.alternatives,
        baseline=u.baseline,
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
