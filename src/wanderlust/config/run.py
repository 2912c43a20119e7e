"""The configuration of a run: frozen dataclasses. Impossible values are errors.

The numbers live in `recipes/`; defaults here are only for what does not depend on the environment or the method. An
environment and a method may have a class of their own, which the registry finds by name.
"""

import dataclasses
from pathlib import Path
from typing import Any, Literal

from wanderlust.catalogue import Variant
from wanderlust.config.bounds import Count, CountOrZero, Positive, Share, Weight, Widths, check_bounds
from wanderlust.errors import require
from wanderlust.registry import METHODS

DriverName = Literal["fused", "split"]
EngineName = Literal["auto", "jax", "c", "warp", "gymnasium"]
Precision = Literal["float32", "bfloat16"]


@dataclasses.dataclass(frozen=True)
class EnvConfig:
    """What a run says of its environment. Every world has a class of its own, found by `name` in the registry."""

    name: str
    """As `wanderlust list` has it, or ``package.module:Name``."""
    episode_length: Count = 200
    """Steps until the time limit."""
    focus: str = ""
    """Which entries of the observation the method's network sees: names or numbers, with commas between; nothing for
    what the world says, mostly all."""

    def __post_init__(self) -> None:
        check_bounds(self, "env.")

    def start_within(self, reach: float) -> "EnvConfig | None":
        """The same with starts up to so far from where they are; None where the world cannot shift them."""
        return None

    def find_files(self, folder: Path) -> None:
        """Read what else the environment needs and a run kept in its folder; called before a world is made of this."""


@dataclasses.dataclass(frozen=True)
class SkillConfig:
    """What skills are drawn from: N(0, I) in `size` dimensions, `size` discrete skills, or the box [-1, 1]^size."""

    kind: Literal["continuous", "discrete", "box"] = "continuous"
    size: int = 2
    """Dimensions, or the number of discrete skills."""
    unit_length: bool = False
    """Continuous skills are directions only: drawn from the unit sphere."""

    def __post_init__(self) -> None:
        if self.kind == "discrete":
            require(self.size >= 2, f"skills.size is {self.size}; discrete skills need at least 2 to tell apart")
        require(self.size >= 1, f"skills.size is {self.size}; {self.kind} skills need at least 1 dimension")
        require(
            self.kind == "continuous" or not self.unit_length,
            "skills.unit_length is true; only continuous skills have a length",
        )

    def __str__(self) -> str:
        return {"continuous": f"{self.size}d", "discrete": f"n{self.size}", "box": f"box{self.size}"}[self.kind]


@dataclasses.dataclass(frozen=True)
class MethodConfig:
    """The skill-discovery method and the network it learns beside the policy (phi, or a discriminator).

    A method with numbers of its own has a subclass of this, `Config` of its class.
    """

    name: str
    view: Variant = ""
    """What is seen: xy = the method's network sees the position only; o = policy and critics do not see it."""
    hidden: Widths = (1024, 1024)
    """Widths of the hidden layers of the method's own network."""
    learning_rate: Positive = 3e-5
    """Of its Adam."""
    reward_scale: Positive = 1.0
    """The method's reward is multiplied by this for the policy's learning; the network's own is not."""

    def __post_init__(self) -> None:
        check_bounds(self, "method.")

    def check(self, run: "RunConfig") -> None:
        """Refuse a run that the method cannot learn from."""

    def __str__(self) -> str:
        return f"{self.name}-{self.view}" if self.view else self.name


def method_config(name: str, view: Variant = "", **fields: Any) -> MethodConfig:
    """The configuration of a method by its name."""
    made: MethodConfig = METHODS.get(name).Config(name=name, view=view, **fields)
    return made


@dataclasses.dataclass(frozen=True)
class SacConfig:
    """Soft actor-critic."""

    hidden: Widths = (1024, 1024)
    """Widths of the hidden layers of policy and critics."""
    policy_activation: Literal["tanh", "relu"] = "tanh"
    """In the policy's hidden layers; critics use ReLU."""
    policy_learning_rate: Positive = 1e-4
    critic_learning_rate: Positive = 1e-4
    alpha_learning_rate: Positive = 1e-4
    discount: Share = 0.99
    """Gamma, in [0, 1)."""
    alpha: Positive = 0.01
    """Entropy coefficient: fixed, or where it starts if it is learned."""
    learn_alpha: bool = False
    """Whether the entropy coefficient is learned."""
    target_entropy_per_action: float = 0.5
    """A learned alpha steers the entropy to -this * (number of action dimensions)."""
    target_step: float = 0.005
    """How far the target critics move each time, in (0, 1]."""
    target_update: Literal["step", "epoch"] = "epoch"
    """When the target critics move: after every gradient step, or once an epoch."""
    time_limit_is_terminal: bool = True
    """Whether no value is expected beyond the time limit (as in the published code)."""
    critic_layer_norm: bool = False
    """Whether the critics' hidden layers are normalised, which keeps fast-moving targets stable."""
    alive_bonus: Weight = 0.0
    """Added to the reward of every step; for bodies that can fall."""
    position_scale: Positive = 1.0
    """What policy and critics see of the position is divided by this, on top of the fixed normalisation."""
    policy_after: CountOrZero = 0
    """Gradient steps of the critics before the policy's first one, for a policy that is better than its new critics."""

    def __post_init__(self) -> None:
        check_bounds(self, "sac.")
        require(0 < self.target_step <= 1, f"sac.target_step is {self.target_step}; it must be in (0, 1]")


@dataclasses.dataclass(frozen=True)
class ScheduleConfig:
    """What one epoch is: collect, then learn."""

    epochs: Count
    """How long a run is."""
    worlds: Count
    """Environments that are stepped side by side."""
    steps: Count
    """Steps of each world in a collection; with steps = episode length a collection is one episode a world."""
    sac_steps: Count
    """Gradient steps of SAC per epoch."""
    sac_batch: Count
    """Transitions in each, drawn with replacement."""
    method_steps: Count
    """Gradient steps of the method's network per epoch; those of SAC unless the order is sac-first."""
    method_batch: CountOrZero = 0
    """Transitions per step of the method's network; 0 means the whole fresh collection."""
    order: Literal["sac-first", "interleaved", "joint"] = "sac-first"
    """All SAC steps and then all method steps (published code); method and SAC steps in turn; or one step of each at
    a time from the same batch."""
    replay_collections: Count = 1
    """How many collections the replay holds; 1 is on-policy."""
    collect: Literal["steps", "episodes"] = "steps"
    """What a collection is: `steps` of every world, whatever episodes they belong to; or one whole episode of every
    world, a world that terminates waiting for the others (published code)."""
    learn_from: Count = 1
    """Transitions that must be stored before the first gradient step."""
    hold: CountOrZero = 0
    """Steps after which an episode goes on with another skill, so that policies learn to change from one to another;
    0 is one skill an episode, as in every paper."""

    def __post_init__(self) -> None:
        check_bounds(self, "schedule.")
        require(
            self.collection * self.replay_collections < 2**31,
            f"schedule.worlds x steps x replay_collections is {self.collection * self.replay_collections}; "
            "it must be below 2^31",
        )
        require(
            self.collect == "steps" or self.method_batch > 0 or self.order == "joint",
            "schedule.collect is episodes, so a fresh collection has gaps: schedule.method_batch must be at least 1",
        )
        require(
            self.order == "sac-first" or self.sac_steps == self.method_steps,
            f"schedule.order is {self.order}, so schedule.method_steps ({self.method_steps}) "
            f"must equal schedule.sac_steps ({self.sac_steps})",
        )

    @property
    def collection(self) -> int:
        """Environment steps of one epoch, per seed."""
        return self.worlds * self.steps


@dataclasses.dataclass(frozen=True)
class StageConfig:
    """A run of another method that comes first; all else is as in the run it belongs to."""

    method: MethodConfig
    skills: SkillConfig
    sac: SacConfig
    schedule: ScheduleConfig


@dataclasses.dataclass(frozen=True)
class StagedConfig(MethodConfig):
    """A method that builds on what another one has learned in a stage before (`train/stages.py`)."""

    first: StageConfig = dataclasses.field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        theirs = self.first.method.view
        require(
            theirs == self.view,
            f"method.first.method.view is {theirs!r} and method.view {self.view!r}; they must be the same: one "
            "stage builds on what the other has seen",
        )


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """A whole run: with the seed, all that decides its outcome."""

    env: EnvConfig
    method: MethodConfig
    skills: SkillConfig
    sac: SacConfig
    schedule: ScheduleConfig
    recipe: str = "custom"
    """Where the numbers came from; a label."""
    seed: int = 0
    """The first seed."""
    seeds: Count = 1
    """How many seeds are trained side by side: seed, seed + 1, ..."""
    engine: EngineName = "auto"
    """What steps the environments: `jax` (dynamics that are a formula), `c` (MuJoCo on CPU cores), `warp` (MuJoCo on a
    GPU), `gymnasium` (an environment of Gymnasium's, which steps itself)."""
    driver: DriverName = "fused"
    """`fused`: an epoch is one compiled program; `split`: environments are stepped on the host."""
    precision: Precision = "float32"
    """Of the products in policy and critics; phi, rewards, targets and optimisers are float32 in any case."""
    log_every: Count = 50
    """Epochs between two lines of metrics.jsonl; also how often a run can stop."""
    look_every: Count = 1
    """Lines between two probes of the coverage, each 200 episodes of random skills."""
    checkpoint_every: Count = 500
    """Epochs between two checkpoints; a multiple of log_every."""
    bonus: MethodConfig | None = None
    """A method whose reward is added to the main one's (`--with`)."""

    def __post_init__(self) -> None:
        check_bounds(self, "")
        require(
            self.schedule.collect == "steps" or self.schedule.steps == self.env.episode_length,
            f"schedule.collect is episodes, so schedule.steps ({self.schedule.steps}) must equal env.episode_length "
            f"({self.env.episode_length})",
        )
        self.method.check(self)
        if self.bonus is not None:
            require(
                not isinstance(self.method, StagedConfig),
                f"{self.method} learns in stages, and {self.bonus} can be added to methods of one stage only",
            )
            require(self.bonus.name != self.method.name, f"{self.bonus} is the method already: leave out --with")
            self.bonus.check(self)
        require(0 <= self.seed <= 2**31 - self.seeds, f"seed is {self.seed}; seeds must lie in [0, 2^31)")
        require(
            self.checkpoint_every % self.log_every == 0,
            f"checkpoint_every is {self.checkpoint_every}; it must be a multiple of log_every ({self.log_every})",
        )

    @property
    def rewards(self) -> str:
        """What is rewarded: the method, and the one whose reward is added, e.g. lsd+music."""
        return str(self.method) if self.bonus is None else f"{self.method}+{self.bonus}"

    @property
    def name(self) -> str:
        """A short name for folders and titles."""
        methods = [self.method] if self.bonus is None else [self.method, self.bonus]
        env, *named = (str(x).rpartition(":")[2].replace("/", "-").lower() for x in (self.env.name, *methods))
        return f"{env}-{'+'.join(named)}-{self.skills}"
