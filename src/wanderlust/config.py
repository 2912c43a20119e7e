"""Configurations: frozen dataclasses, JSON in and out. Unknown keys and impossible values are errors.

The numbers live in `recipes/`; defaults here are only for what does not depend on the world or the method.
"""

import dataclasses
import json
import math
import types
import typing
from typing import Any, Literal, TypeVar

from wanderlust.errors import UserError
from wanderlust.registry import WORLDS

T = TypeVar("T")

Driver = Literal["fused", "split"]
Engine = Literal["auto", "jax", "c", "warp"]
Precision = Literal["float32", "bfloat16"]
BodyName = Literal["ant", "half-cheetah", "humanoid"]
Variant = Literal["", "xy", "o", "xyo"]


def _require(ok: bool, message: str) -> None:
    if not ok:
        raise UserError(message)


@dataclasses.dataclass(frozen=True)
class EnvConfig:
    """What a run says of its environment. Every world has a class of its own, found by `name` in the registry."""

    name: str
    """As `wanderlust list` has it, or ``package.module:Name``."""
    episode_length: int = 200

    def __post_init__(self) -> None:
        _require(self.episode_length >= 1, f"env.episode_length is {self.episode_length}; it must be at least 1")


@dataclasses.dataclass(frozen=True)
class SkillConfig:
    """What skills are drawn from: N(0, I) in `size` dimensions, `size` discrete skills, or the box [-1, 1]^size."""

    kind: Literal["continuous", "discrete", "box"] = "continuous"
    size: int = 2
    unit_length: bool = False
    """Continuous skills are directions only: drawn from the unit sphere."""

    def __post_init__(self) -> None:
        if self.kind == "discrete":
            _require(self.size >= 2, f"skills.size is {self.size}; discrete skills need at least 2 to tell apart")
        _require(self.size >= 1, f"skills.size is {self.size}; {self.kind} skills need at least 1 dimension")
        _require(
            self.kind == "continuous" or not self.unit_length,
            "skills.unit_length is true; only continuous skills have a length",
        )

    def __str__(self) -> str:
        return {"continuous": f"{self.size}d", "discrete": f"n{self.size}", "box": f"box{self.size}"}[self.kind]


@dataclasses.dataclass(frozen=True)
class MethodConfig:
    """The skill-discovery method and the network it learns beside the policy (phi, or a discriminator)."""

    name: str
    view: Variant = ""
    """What is seen: xy = the method's network sees the position only; o = policy and critics do not see it."""
    hidden: tuple[int, ...] = (1024, 1024)
    learning_rate: float = 3e-5

    def __post_init__(self) -> None:
        _require_widths("method.hidden", self.hidden)
        _require_positive("method.learning_rate", self.learning_rate)

    def __str__(self) -> str:
        return f"{self.name}-{self.view}" if self.view else self.name


@dataclasses.dataclass(frozen=True)
class PlainMethodConfig(MethodConfig):
    """A method with no numbers of its own."""

    name: Literal["lsd", "diayn", "visr", "vic"]


@dataclasses.dataclass(frozen=True)
class DadsConfig(MethodConfig):
    """DADS: skill dynamics, whose likelihood is compared with that under other skills."""

    name: Literal["dads"] = "dads"
    alternatives: int = 100
    """Other skills the reward compares with, drawn from the prior."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(self.alternatives >= 1, f"method.alternatives is {self.alternatives}; it must be at least 1")


@dataclasses.dataclass(frozen=True)
class ApsConfig(MethodConfig):
    """APS: VISR's reward, and the distance to the nearest of many remembered states."""

    name: Literal["aps"] = "aps"
    neighbours: int = 5
    memory: int = 2048
    """States among which neighbours are searched."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(
            1 <= self.neighbours < self.memory,
            f"method.neighbours is {self.neighbours}; it must be at least 1 and below method.memory, {self.memory}",
        )


@dataclasses.dataclass(frozen=True)
class MetraConfig(MethodConfig):
    """METRA: LSD's reward, with phi bounded over neighbouring states by a Lagrange multiplier."""

    name: Literal["metra"] = "metra"
    multiplier: float = 30.0
    """The Lagrange multiplier at the start."""
    slack: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_positive("method.multiplier", self.multiplier)
        _require_positive("method.slack", self.slack)


@dataclasses.dataclass(frozen=True)
class CsdConfig(MethodConfig):
    """CSD: phi bounded by how surprising a step is, under a learned model of steps."""

    name: Literal["csd"] = "csd"
    multiplier: float = 3000.0
    """The Lagrange multiplier at the start."""
    slack: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_positive("method.multiplier", self.multiplier)
        _require_positive("method.slack", self.slack)


@dataclasses.dataclass(frozen=True)
class AblationConfig(MethodConfig):
    """One cell of the paper's ablation grid; (inner-product, step, spectral) is LSD."""

    name: Literal["ablation"] = "ablation"
    form: Literal["normal", "von-mises-fisher", "inner-product"] = "inner-product"
    """How the reward compares phi with the skill."""
    states: Literal["state", "next-state", "change", "step"] = "step"
    """What phi is taken of: phi(s), phi(s'), phi(s' - s), or the step phi(s') - phi(s)."""
    spectral: bool = True
    """Whether phi is spectrally normalised."""

    def __str__(self) -> str:
        spectral = "spectral" if self.spectral else "free"
        return f"{super().__str__()}-{self.form}-{self.states}-{spectral}"


@dataclasses.dataclass(frozen=True)
class SmmConfig(MethodConfig):
    """SMM: a discriminator of skills, and a variational autoencoder whose error says how rarely a state is seen."""

    name: Literal["smm"] = "smm"
    skill_weight: float = 1.0
    """Of being told apart from other skills, in the reward."""
    density_weight: float = 0.5
    """Of being rarely seen, in the reward."""
    density_learning_rate: float = 1e-3
    """Of the autoencoder; learning_rate is the discriminator's."""
    code: int = 64
    """Entries of the autoencoder's code."""
    beta: float = 1.0
    """Weight of the code's divergence from its prior in the autoencoder's loss."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("skill_weight", "density_weight"):
            _require(getattr(self, name) >= 0, f"method.{name} is {getattr(self, name)}; it must be 0 or larger")
        _require_positive("method.density_learning_rate", self.density_learning_rate)
        _require_positive("method.beta", self.beta)
        _require(self.code >= 1, f"method.code is {self.code}; it must be at least 1")


@dataclasses.dataclass(frozen=True)
class StageConfig:
    """A run of another method that comes first; what is not said here is as in the run it belongs to."""

    method: "AnyMethodConfig"
    skills: SkillConfig
    sac: "SacConfig"
    schedule: "ScheduleConfig"


@dataclasses.dataclass(frozen=True)
class StagedConfig(MethodConfig):
    """A method that builds on what another one has learned in a stage before (`stages.py`)."""

    first: StageConfig = dataclasses.field(kw_only=True)


@dataclasses.dataclass(frozen=True)
class EdlConfig(StagedConfig):
    """EDL: after exploration by SMM, a VQ-VAE of the states found, and skills that reach its codes.

    `hidden` and `learning_rate` are the VQ-VAE's.
    """

    name: Literal["edl"] = "edl"
    code: int = 16
    """Entries of a code."""
    commitment: float = 1.5
    """Weight of the encoder's distance to its code in the VQ-VAE's loss."""
    code_steps: int = 50_000
    """Gradient steps of the VQ-VAE."""
    code_batch: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        first = self.first.method
        _require(first.name == "smm", f"method.first.method.name is {first.name!r}; edl explores with 'smm'")
        _require(
            first.view == self.view,
            f"method.first.method.view is {first.view!r} and method.view {self.view!r}; they must be the same, for the "
            "states one stage finds are the goals of the other",
        )
        for name in ("code", "code_steps", "code_batch"):
            _require(getattr(self, name) >= 1, f"method.{name} is {getattr(self, name)}; it must be at least 1")
        _require_positive("method.commitment", self.commitment)


@dataclasses.dataclass(frozen=True)
class LinearizerConfig(MethodConfig):
    """The lower level of IBOL: moves the state along goals. It has no network: hidden and learning_rate do nothing."""

    name: Literal["linearizer"] = "linearizer"
    block: int = 10
    """Steps over which a move is measured; every step of a block is rewarded by the whole block's move."""
    hold: int = 0
    """Steps of an episode after which training sets another goal; 0 keeps one for the whole episode."""
    standardise: bool = False
    """Whether rewards are brought to mean 0 and variance 1 by running statistics."""
    keep: float = 0.99
    """What an update keeps of these statistics."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(self.block >= 1, f"method.block is {self.block}; it must be at least 1")
        _require(
            self.hold >= 0 and self.hold % self.block == 0,
            f"method.hold is {self.hold}; it must be a multiple of method.block ({self.block}), or 0",
        )
        _require(0 <= self.keep < 1, f"method.keep is {self.keep}; it must be in [0, 1)")


@dataclasses.dataclass(frozen=True)
class IbolConfig(StagedConfig):
    """IBOL: skills that set goals for a linearizer, learned from trajectories through an information bottleneck.

    `hidden` is the size of both policies and, its first width, of the encoder's LSTM; SAC plays no part in this stage.
    """

    name: Literal["ibol"] = "ibol"
    bottleneck: float = 0.01
    """Weight of the divergence of q(z|trajectory) from the prior (beta of the paper)."""
    recovery: float = 2.0
    """Weight of log q(u|trajectory), by which the sampling policy's parameter is recovered."""
    spread: float = 1.0
    """Weight of -log p(goal|state) in what the sampling policy is rewarded for (alpha of the paper)."""
    baseline: bool = False
    """Whether REINFORCE judges a trajectory against the mean of the others in its batch, which makes it less noisy."""
    samples: int = 16
    """Skills drawn from q(z|trajectory) for each trajectory."""
    alternatives: int = 100
    """Parameters u over which p(goal|state) is a mean."""
    statistics_keep: float = 0.85
    """What an epoch keeps of the running mean and variance by which both policies and the encoder see states."""

    def __post_init__(self) -> None:
        super().__post_init__()
        first = self.first.method
        _require(first.name == "linearizer", f"method.first.method.name is {first.name!r}; ibol needs a 'linearizer'")
        _require(
            first.view == self.view,
            f"method.first.method.view is {first.view!r} and method.view {self.view!r}; they must be the same, for the "
            "goals of one stage are those of the other",
        )
        for name in ("bottleneck", "recovery", "spread"):
            _require(getattr(self, name) >= 0, f"method.{name} is {getattr(self, name)}; it must be 0 or larger")
        for name in ("samples", "alternatives"):
            _require(getattr(self, name) >= 1, f"method.{name} is {getattr(self, name)}; it must be at least 1")
        keep = self.statistics_keep
        _require(0 <= keep < 1, f"method.statistics_keep is {keep}; it must be in [0, 1)")

    @property
    def block(self) -> int:
        """Steps a goal is held: what the linearizer has learned."""
        return self.first.method.block if isinstance(self.first.method, LinearizerConfig) else 1


AnyMethodConfig = (
    PlainMethodConfig
    | DadsConfig
    | ApsConfig
    | MetraConfig
    | CsdConfig
    | AblationConfig
    | SmmConfig
    | EdlConfig
    | LinearizerConfig
    | IbolConfig
)


def method_config(name: str, view: Variant = "", **fields: Any) -> AnyMethodConfig:
    """The configuration of a method by its name."""
    kinds: tuple[Any, ...] = typing.get_args(AnyMethodConfig)
    kind = _member(kinds, {"name": name}, "the method", "method")
    made: AnyMethodConfig = kind(name=name, view=view, **fields)
    return made


@dataclasses.dataclass(frozen=True)
class SacConfig:
    """Soft actor-critic."""

    hidden: tuple[int, ...] = (1024, 1024)
    policy_activation: Literal["tanh", "relu"] = "tanh"
    policy_learning_rate: float = 1e-4
    critic_learning_rate: float = 1e-4
    alpha_learning_rate: float = 1e-4
    discount: float = 0.99
    alpha: float = 0.01
    """Entropy coefficient: fixed, or where it starts if it is learned."""
    learn_alpha: bool = False
    target_entropy_per_action: float = 0.5
    """A learned alpha steers the entropy to -this * (number of action dimensions)."""
    target_step: float = 0.005
    target_update: Literal["step", "epoch"] = "epoch"
    """When the target critics move: after every gradient step, or once an epoch."""
    time_limit_is_terminal: bool = True
    """Whether no value is expected beyond the time limit (as in the published code)."""
    critic_layer_norm: bool = False
    """Whether the critics' hidden layers are normalised, which keeps fast-moving targets stable."""
    alive_bonus: float = 0.0
    """Added to the reward of every step; for bodies that can fall."""
    position_scale: float = 1.0
    """What policy and critics see of the position is divided by this, on top of the fixed normalisation."""

    def __post_init__(self) -> None:
        _require_widths("sac.hidden", self.hidden)
        for name in ("policy_learning_rate", "critic_learning_rate", "alpha_learning_rate", "alpha", "position_scale"):
            _require_positive(f"sac.{name}", getattr(self, name))
        _require(0 <= self.discount < 1, f"sac.discount is {self.discount}; it must be in [0, 1)")
        _require(self.alive_bonus >= 0, f"sac.alive_bonus is {self.alive_bonus}; it must be 0 or larger")
        _require(0 < self.target_step <= 1, f"sac.target_step is {self.target_step}; it must be in (0, 1]")


@dataclasses.dataclass(frozen=True)
class ScheduleConfig:
    """What one epoch is: collect, then learn."""

    epochs: int
    worlds: int
    """Worlds that run side by side."""
    steps: int
    """Steps of each world in a collection; with steps = episode length a collection is one episode a world."""
    sac_steps: int
    sac_batch: int
    method_steps: int
    method_batch: int = 0
    """Transitions per step of the method's network; 0 means the whole fresh collection."""
    order: Literal["sac-first", "interleaved", "joint"] = "sac-first"
    """All SAC steps and then all method steps (published code); method and SAC steps in turn; or one step of each at
    a time from the same batch."""
    replay_collections: int = 1
    """How many collections the replay holds; 1 is on-policy."""
    collect: Literal["steps", "episodes"] = "steps"
    """What a collection is: `steps` of every world, whatever episodes they belong to; or one whole episode of every
    world, a world that terminates waiting for the others (published code)."""
    learn_from: int = 1
    """Transitions that must be stored before the first gradient step."""
    hold: int = 0
    """Steps after which an episode goes on with another skill, so that policies learn to change from one to another;
    0 is one skill an episode, as in every paper."""

    def __post_init__(self) -> None:
        counts = ("epochs", "worlds", "steps", "sac_steps", "sac_batch", "method_steps", "replay_collections")
        for name in (*counts, "learn_from"):
            _require(getattr(self, name) >= 1, f"schedule.{name} is {getattr(self, name)}; it must be at least 1")
        _require(self.hold >= 0, f"schedule.hold is {self.hold}; it must be 0 or larger")
        _require(self.method_batch >= 0, f"schedule.method_batch is {self.method_batch}; it must be 0 or larger")
        _require(
            self.collection * self.replay_collections < 2**31,
            f"schedule.worlds x steps x replay_collections is {self.collection * self.replay_collections}; "
            "it must be below 2^31",
        )
        _require(
            self.collect == "steps" or self.method_batch > 0 or self.order == "joint",
            "schedule.collect is episodes, so a fresh collection has gaps: schedule.method_batch must be at least 1",
        )
        _require(
            self.order == "sac-first" or self.sac_steps == self.method_steps,
            f"schedule.order is {self.order}, so schedule.method_steps ({self.method_steps}) "
            f"must equal schedule.sac_steps ({self.sac_steps})",
        )

    @property
    def collection(self) -> int:
        """Environment steps of one epoch, per seed."""
        return self.worlds * self.steps


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """A whole run: with the seed, all that decides its outcome."""

    env: EnvConfig
    method: AnyMethodConfig
    skills: SkillConfig
    sac: SacConfig
    schedule: ScheduleConfig
    recipe: str = "custom"
    seed: int = 0
    """The first seed."""
    seeds: int = 1
    """How many seeds are trained side by side: seed, seed + 1, ..."""
    engine: Engine = "auto"
    """What moves the worlds: `jax` (worlds that are a formula), `c` (MuJoCo on CPU cores), `warp` (MuJoCo on a GPU)."""
    driver: Driver = "fused"
    precision: Precision = "float32"
    """Of the products in policy and critics; phi, rewards, targets and optimisers are float32 in any case."""
    log_every: int = 50
    """Epochs between two lines of metrics.jsonl; also how often a run can stop."""
    look_every: int = 1
    """Lines between two looks at the coverage, for which 200 random skills are played."""
    checkpoint_every: int = 500
    """Epochs between two checkpoints; a multiple of log_every."""

    def __post_init__(self) -> None:
        _require(self.seeds >= 1, f"seeds is {self.seeds}; it must be at least 1")
        _require(
            self.schedule.collect == "steps" or self.schedule.steps == self.env.episode_length,
            f"schedule.collect is episodes, so schedule.steps ({self.schedule.steps}) must equal env.episode_length "
            f"({self.env.episode_length})",
        )
        if isinstance(self.method, IbolConfig):
            _require(
                self.schedule.collect == "episodes",
                f"schedule.collect is {self.schedule.collect}; ibol learns from whole trajectories: episodes",
            )
            _require(
                self.env.episode_length >= 2 * self.method.block,
                f"env.episode_length is {self.env.episode_length}; ibol needs at least two goals of "
                f"{self.method.block} steps (method.first.method.block)",
            )
            together = min(self.schedule.worlds, self.schedule.sac_batch)
            _require(
                together >= 2 or not self.method.baseline,
                "method.baseline needs other trajectories to compare with: schedule.worlds and schedule.sac_batch "
                "must be at least 2",
            )
        own = {"ibol": "follows goals of its own", "linearizer": "has method.hold", "vic": "is paid for whole episodes"}
        _require(
            not self.schedule.hold or self.method.name not in own,
            f"schedule.hold is {self.schedule.hold}, but {self.method.name} {own.get(self.method.name)}; leave it at 0",
        )
        _require(0 <= self.seed <= 2**31 - self.seeds, f"seed is {self.seed}; seeds must lie in [0, 2^31)")
        _require(self.log_every >= 1, f"log_every is {self.log_every}; it must be at least 1")
        _require(self.look_every >= 1, f"look_every is {self.look_every}; it must be at least 1")
        _require(
            self.checkpoint_every >= 1 and self.checkpoint_every % self.log_every == 0,
            f"checkpoint_every is {self.checkpoint_every}; it must be a multiple of log_every ({self.log_every})",
        )

    @property
    def name(self) -> str:
        """A short name for folders and titles."""
        return f"{self.env.name}-{self.method}-{self.skills}"


def _require_positive(name: str, value: float) -> None:
    _require(value > 0, f"{name} is {value}; it must be positive")


def _require_widths(name: str, widths: tuple[int, ...]) -> None:
    _require(
        len(widths) >= 1 and all(w >= 1 for w in widths),
        f"{name} is {list(widths)}; it must be one or more layer widths of at least 1",
    )


# --- JSON ------------------------------------------------------------------------------------------------------


def to_json(config: Any) -> str:
    """A configuration as JSON text."""
    return json.dumps(dataclasses.asdict(config), indent=2) + "\n"


def from_json(kind: type[T], text: str, where: str) -> T:
    """Read a configuration of type `kind`; `where` names the source in error messages."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{where} is not valid JSON: {error.msg} at line {error.lineno}") from None
    except (ValueError, RecursionError):
        raise UserError(f"{where} is not a configuration: its nesting or a number is too large") from None
    return build(kind, data, where)


def with_changes(config: T, changes: tuple[str, ...]) -> T:
    """A copy with some fields changed, e.g. ``sac.discount=0.995``; values are JSON, or bare words for strings."""
    data = dataclasses.asdict(config)  # type: ignore[call-overload]
    for change in changes:
        path, equals, text = change.partition("=")
        _require(bool(equals), f"--set {change} has no value; write --set name=value, e.g. --set sac.discount=0.995")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        *parents, last = path.split(".")
        node: Any = data
        for i, key in enumerate([*parents, last]):
            if not isinstance(node, dict) or key not in node:
                known = f"; known here: {', '.join(node)}" if isinstance(node, dict) else ""
                raise UserError(f"--set {change}: there is no field {'.'.join([*parents, last][: i + 1])}{known}")
            if i < len(parents):
                node = node[key]
        node[last] = value
    return build(type(config), data, f"--set {' '.join(changes)}") if changes else config


def _member(kinds: tuple[Any, ...], data: Any, where: str, spot: str) -> Any:
    """The member of a union of configurations that the field `name` picks."""
    _require(isinstance(data, dict), f"{where}: {spot} must be an object with named fields, not {data!r}")
    names = {name: kind for kind in kinds for name in typing.get_args(typing.get_type_hints(kind)["name"])}
    _require("name" in data, f"{where}: missing key {spot}.name")
    name = data["name"]
    known = ", ".join(map(repr, names))
    _require(isinstance(name, str) and name in names, f"{where}: {spot}.name is {name!r}; it must be one of {known}")
    return names[name]


def _env_kind(data: Any, where: str, spot: str) -> Any:
    """The configuration class of the world that the field `name` picks."""
    _require(isinstance(data, dict), f"{where}: {spot} must be an object with named fields, not {data!r}")
    _require("name" in data, f"{where}: missing key {spot}.name")
    _require(isinstance(data["name"], str), f"{where}: {spot}.name is {data['name']!r}; it must be of type str")
    try:
        return WORLDS.get(data["name"]).Config
    except UserError as error:
        raise UserError(f"{where}: {spot}.name: {error}") from None


def build(kind: Any, data: Any, where: str, path: str = "") -> Any:
    """Turn parsed JSON into `kind`, checking every key and type on the way."""
    spot = path or "the top level"
    if kind is EnvConfig:
        kind = _env_kind(data, where, spot)
    if dataclasses.is_dataclass(kind):
        _require(isinstance(data, dict), f"{where}: {spot} must be an object with named fields, not {data!r}")
        hints = typing.get_type_hints(kind)
        fields = {f.name: f for f in dataclasses.fields(kind)}
        for key in data:
            name = f"{path}.{key}" if path else key
            _require(key in fields, f"{where}: unknown key {name}; known here: {', '.join(fields)}")
        for name, field in fields.items():
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            _require(name in data or not required, f"{where}: missing key {f'{path}.{name}' if path else name}")
        values = {k: build(hints[k], v, where, f"{path}.{k}" if path else k) for k, v in data.items()}
        try:
            return kind(**values)  # type: ignore[operator]
        except UserError as error:
            raise UserError(f"{where}: {error}") from None
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        return build(_member(args, data, where, spot), data, where, path)
    if origin is Literal:
        _require(data in args, f"{where}: {spot} is {data!r}; it must be one of {', '.join(map(repr, args))}")
        return data
    if origin is tuple:
        _require(isinstance(data, list | tuple), f"{where}: {spot} is {data!r}; it must be a list, such as [128, 128]")
        return tuple(build(args[0], v, where, f"{path}[{i}]") for i, v in enumerate(data))
    if kind in (int, float) and isinstance(data, int) and not isinstance(data, bool):
        shown = data if abs(data) < 10**30 else "out of range"
        _require(abs(data) < 2**31, f"{where}: {spot} is {shown}; it must be below 2^31")
        return kind(data)
    if kind is float and isinstance(data, float):
        _require(math.isfinite(data), f"{where}: {spot} is {data}; it must be a finite number")
    ok = isinstance(data, kind) and not (isinstance(data, bool) and kind is not bool)
    _require(ok, f"{where}: {spot} is {data!r}; it must be of type {getattr(kind, '__name__', kind)}")
    return data
