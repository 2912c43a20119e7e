"""The numbers of controllers over skills: (recipe, learner) -> setting; and how long skills act.

`paper` is the published setting (the appendix on downstream tasks), `fast` is for a GPU, `laptop` for CPU cores.
"""

import dataclasses

from wanderlust.config import Count, SacConfig, check_bounds
from wanderlust.envs.worlds.body import Body
from wanderlust.envs.worlds.fetch import Fetch
from wanderlust.errors import UserError
from wanderlust.recipes.fetch import laptop_sac, published_sac
from wanderlust.registry import WORLDS
from wanderlust.rl.ppo import PpoConfig

LARGEST_SKILL = 2.0
"""Continuous skills are chosen from [-2, 2]^d, as in the paper."""


def usual_option_length(env: str) -> int:
    """Control steps that a skill acts in an environment before another is chosen."""
    length: int = getattr(WORLDS.get(env), "option_length", Body.option_length)
    return length


@dataclasses.dataclass(frozen=True)
class ControllerSetting:
    """How a controller learns: an epoch is some episodes, and then some gradient steps."""

    learner: SacConfig | PpoConfig
    epochs: Count
    episodes: Count
    """Of one epoch, per seed, side by side."""
    steps: Count
    """Gradient steps of an epoch."""
    batch: int
    """Choices that a gradient step reads, drawn with replacement; 0 reads all of the epoch's."""
    collections: Count = 1
    """Epochs whose choices are kept to learn from; 1 is on-policy."""
    statistics_rate: float = 1e-3
    """The share of one observation in the running mean and variance by which the controller sees."""
    log_every: Count = 10
    """Epochs between two points of the learning curve; also how often it can stop."""

    def __post_init__(self) -> None:
        check_bounds(self, "--")


_SAC_PAPER = SacConfig(
    hidden=(512, 512),
    policy_learning_rate=3e-4,
    critic_learning_rate=3e-4,
    alpha_learning_rate=3e-4,
    discount=0.995,
    learn_alpha=True,
)
"""One target update an epoch and no value beyond the time limit, as in the code of the authors' lineage."""

_SAC_FAST = dataclasses.replace(
    _SAC_PAPER,
    policy_learning_rate=1e-3,
    critic_learning_rate=1e-3,
    alpha_learning_rate=1e-3,
    target_update="step",
    target_step=0.02,
    critic_layer_norm=True,
)
"""Without layer norm in the critics it learns several goals in a row late and forgets them again."""

SETTINGS = {
    ("paper", "sac"): ControllerSetting(_SAC_PAPER, epochs=5000, episodes=10, steps=4, batch=0, log_every=50),
    ("paper", "ppo"): ControllerSetting(PpoConfig(), epochs=1000, episodes=64, steps=10, batch=256),
    ("fast", "sac"): ControllerSetting(
        _SAC_FAST, epochs=60, episodes=1024, steps=128, batch=2048, collections=8, statistics_rate=1e-4, log_every=2
    ),
    ("fast", "ppo"): ControllerSetting(
        PpoConfig(learning_rate=1e-3),
        epochs=100,
        episodes=1024,
        steps=32,
        batch=2048,
        statistics_rate=1e-4,
        log_every=2,
    ),
    ("laptop", "sac"): ControllerSetting(
        dataclasses.replace(_SAC_FAST, hidden=(128, 128)),
        epochs=100,
        episodes=50,
        steps=64,
        batch=256,
        collections=20,
        log_every=5,
    ),
    ("laptop", "ppo"): ControllerSetting(
        PpoConfig(hidden=(128, 128), learning_rate=1e-3), epochs=100, episodes=100, steps=20, batch=256, log_every=5
    ),
}
"""Epochs are not in the paper; of its code's lineage, SAC's are."""

FETCH_SETTINGS = {
    ("paper", "sac"): ControllerSetting(published_sac(), epochs=500, episodes=16, steps=40, batch=256, collections=500),
    ("laptop", "sac"): ControllerSetting(laptop_sac(), epochs=300, episodes=16, steps=40, batch=256, collections=300),
}
"""Where they differ for the Fetch robot: the numbers of discovery, but 16 episodes an epoch (the appendix).

How many epochs is not said there: under `paper` as many episodes as discovery has, 8,000. All of them are kept, as in
discovery.
"""

RECIPES = tuple(dict.fromkeys(recipe for recipe, _ in SETTINGS))


def get_setting(recipe: str, learner: str, env: str) -> ControllerSetting:
    """The numbers of a recipe for a learner, `sac` or `ppo`, in an environment."""
    if recipe not in RECIPES:
        raise UserError(f"--recipe is {recipe!r}; controllers have {', '.join(RECIPES)}")
    own = FETCH_SETTINGS if issubclass(WORLDS.get(env), Fetch) else {}
    return own.get((recipe, learner)) or SETTINGS[recipe, learner]
