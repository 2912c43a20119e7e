"""Playing a task with skills: somebody chooses a skill, it is held for some control steps, and so on to the end.

Who chooses is a `Hand`: a learned controller, a rule, chance. Many episodes of several seeds are played side by side,
in one compiled program where the engine compiles, else with the engine between compiled calls.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust.config import Engine as EngineName
from wanderlust.downstream import episodes
from wanderlust.downstream.episodes import Held
from wanderlust.downstream.tasks import Task
from wanderlust.envs import Engine, World, WorldState, make_engine
from wanderlust.train import Setup
from wanderlust.train.rollout import by_seed


@dataclasses.dataclass(frozen=True)
class Game:
    """A task in a world, and what moves it there."""

    task: Task[Any]
    world: World
    engine: Engine


def make_game(parts: Setup, task: Task[Any], engine: EngineName = "auto") -> Game:
    """A task in the world that some skills were learned in."""
    world = task.arrange(parts.world)
    return Game(task, world, make_engine(world, engine))


class Chosen(NamedTuple):
    """What a hand has chosen for a batch of worlds."""

    skill: Float[Array, "worlds skill"]
    note: Any = ()
    """What it wants to remember of it."""


@dataclasses.dataclass(frozen=True)
class Hand:
    """How skills are chosen and played; both functions are of one seed, whose `player` comes first."""

    choose: Callable[[Any, Float[Array, "worlds seen"], Key[Array, ""]], Chosen]
    """From what the world observes and the task's entries behind it, raw."""
    act: Callable[[Any, Float[Array, "worlds obs"], Float[Array, "worlds orders"]], Float[Array, "worlds action"]]
    """From what the world observes, raw, and orders: the skill, or what was decided for it."""
    hold: int
    """Control steps that a skill is held."""
    decide: Callable[[Any, Float[Array, "worlds obs"], Float[Array, "worlds _"]], Float[Array, "worlds orders"]] = (
        lambda player, obs, skill: skill
    )
    """What orders a skill gives here, where a level between them and the body's policy sets goals."""
    every: int = 0
    """Control steps after which that is asked again while a skill is held; 0: orders are skills."""


class Turns(NamedTuple):
    """What came of every choice, [turns, seeds, worlds, ...]; those after the end of an episode mean nothing."""

    seen: Float[Array, "turns seeds worlds seen"]
    chosen: Chosen
    reward: Float[Array, "turns seeds worlds"]
    """Summed over the control steps."""
    seen_next: Float[Array, "turns seeds worlds seen"]
    terminated: Bool[Array, "turns seeds worlds"]
    truncated: Bool[Array, "turns seeds worlds"]
    valid: Bool[Array, "turns seeds worlds"]
    """Whether the episode was still running."""
    steps: Int[Array, "turns seeds worlds"]
    """Control steps made."""
    path: Any = ()
    """[turns, hold, seeds, worlds, seen] What was seen after every control step, if that was asked for."""


Play = Callable[[Any, Key[Array, " seeds"], int], Turns]
"""Plays a number of episodes per seed; arrays of the players lead with the seed axis."""


def make_play(game: Game, hand: Hand, paths: bool = False) -> Play:
    """How a game is played by a hand: a function that can be compiled, if the engine can be."""
    return _Rounds(game, hand, paths).inside if game.engine.compiles else _Rounds(game, hand, paths).outside()


def returns(turns: Turns) -> Float[Array, "seeds worlds"]:
    """What every episode has earned."""
    return (turns.reward * turns.valid).sum(axis=0)


@dataclasses.dataclass(frozen=True)
class _Rounds:
    """The rounds of a game. An engine and the task see seeds x worlds as one batch, hands one seed at a time."""

    game: Game
    hand: Hand
    paths: bool

    @property
    def turns(self) -> int:
        return math.ceil(self.game.task.horizon / self.hand.hold)

    # --- the pieces --------------------------------------------------------------------------------------------

    def begin(self, keys: Key[Array, " seeds"], count: int) -> tuple[Held, Key[Array, "turns seeds"]]:
        """Fresh episodes, and the keys of all turns."""
        start, draws = jax.vmap(jax.random.split, out_axes=1)(keys)
        each = jax.vmap(lambda key: jax.random.split(key, count))(start).reshape(-1)
        fresh = jax.vmap(lambda key: episodes.begin(self.game.world, self.game.task, key))(each)
        turns = jax.vmap(lambda key: jax.random.split(key, self.turns), out_axes=1)(draws)
        return episodes.held(fresh, jnp.ones(len(each), bool)), turns

    def look(self, now: Held, seeds: int) -> Float[Array, "seeds worlds seen"]:
        seen = jax.vmap(lambda e: episodes.observe(self.game.world, self.game.task, e))(now.episode)
        return by_seed(seen, seeds)

    def choose(self, player: Any, now: Held, keys: Key[Array, " seeds"]) -> tuple[Held, Array, Chosen]:
        """A fresh count of what comes, what is seen, and what is chosen."""
        seen = self.look(now, len(keys))
        return episodes.held(now.episode, now.running), seen, jax.vmap(self.hand.choose)(player, seen, keys)

    def decide(self, player: Any, now: Held, orders: Array) -> Float[Array, "seeds worlds orders"]:
        return jax.vmap(self.hand.decide)(player, self.observe(now, len(orders)), orders)

    def act(self, player: Any, now: Held, orders: Array) -> Float[Array, "all action"]:
        action = jax.vmap(self.hand.act)(player, self.observe(now, len(orders)), orders)
        return action.reshape(-1, action.shape[-1])

    def observe(self, now: Held, seeds: int) -> Float[Array, "seeds worlds obs"]:
        return by_seed(jax.vmap(self.game.world.observe)(now.episode.body), seeds)

    def settle(self, now: Held, after: WorldState, seeds: int) -> tuple[Held, Any]:
        now = episodes.settle(self.game.world, self.game.task, now, after)
        return now, self.look(now, seeds) if self.paths else ()

    def record(self, seen: Array, chosen: Chosen, before: Held, after: Held, path: Any) -> Turns:
        outcome, seeds = after.outcome, len(seen)
        of_all = (outcome.reward, outcome.terminated, outcome.truncated, before.running, after.steps)
        reward, terminated, truncated, valid, steps = (by_seed(x, seeds) for x in of_all)
        return Turns(seen, chosen, reward, self.look(after, seeds), terminated, truncated, valid, steps, path)

    # --- with the engine inside, and outside, of a compiled program ------------------------------------------------

    def inside(self, player: Any, keys: Key[Array, " seeds"], count: int) -> Turns:
        seeds, engine, every = len(keys), self.game.engine, self.hand.every

        def turn(now: Held, keys: Key[Array, " seeds"]) -> tuple[Held, Turns]:
            before, seen, chosen = self.choose(player, now, keys)

            def step(carry: tuple[Held, Array], n: Array) -> tuple[tuple[Held, Array], Any]:
                now, orders = carry
                if every:
                    due = (n > 0) & (n % every == 0)
                    orders = jax.lax.cond(due, lambda: self.decide(player, now, orders), lambda: orders)
                now, path = self.settle(now, engine.step(now.episode.body, self.act(player, now, orders)), seeds)
                return (now, orders), path

            orders = self.decide(player, before, chosen.skill) if every else chosen.skill
            (after, _), path = jax.lax.scan(step, (before, orders), jnp.arange(self.hand.hold))
            return after, self.record(seen, chosen, before, after, path)

        begun, turn_keys = self.begin(keys, count)
        return jax.lax.scan(turn, begun, turn_keys)[1]

    def outside(self) -> Play:
        """The pieces are compiled once, here."""
        begin = jax.jit(self.begin, static_argnums=1)
        choose, act, record = jax.jit(self.choose), jax.jit(self.act), jax.jit(self.record)
        settle, decide = jax.jit(self.settle, static_argnums=2), jax.jit(self.decide)
        engine, hold, every = self.game.engine, self.hand.hold, self.hand.every

        def play(player: Any, keys: Key[Array, " seeds"], count: int) -> Turns:
            now, turn_keys = begin(keys, count)
            log: list[Any] = []
            for n in range(self.turns):
                before, seen, chosen = choose(player, now, turn_keys[n])
                path: list[Any] = []
                now, orders = before, chosen.skill
                while len(path) < hold and (not path or np.any(now.running)):
                    if every and len(path) % every == 0:
                        orders = decide(player, now, orders)
                    action: Any = np.asarray(act(player, now, orders))
                    now, looked = settle(now, engine.step(jax.device_get(now.episode.body), action), len(keys))
                    path.append(looked)
                trace = jnp.stack(path + path[-1:] * (hold - len(path))) if self.paths else ()
                log.append(jax.device_get(record(seen, chosen, before, now, trace)))
                if not np.any(now.running):
                    break
            # turns that nobody has played: where the last one led, and not valid
            nothing = log[-1]._replace(valid=np.zeros_like(log[-1].valid), steps=np.zeros_like(log[-1].steps))
            if self.paths:
                still = np.broadcast_to(np.asarray(nothing.seen_next)[None], nothing.path.shape)
                nothing = nothing._replace(path=still)
            log += [nothing] * (self.turns - len(log))
            whole: Turns = jax.tree.map(lambda *x: np.stack(x), *log)
            return whole

        return play
