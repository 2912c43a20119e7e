"""The simulation that people steer: a body under a skill, or under way to goals. It knows no viewer and no clock."""

import collections
import contextlib
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wanderlust.envs import WorldState
from wanderlust.errors import UserError
from wanderlust.methods.views import goal_entries, goal_sizes
from wanderlust.report.explorer.mechanics import Mechanics
from wanderlust.runs.loading import Skills

LIES_FOR = 1.5
"""Simulated seconds that a body lies before it counts as fallen, and is put up if that is wanted."""
TRAIL = 500
"""Places of the trail that are kept."""
PUSH = 3.0
"""Metres per second that a push adds, for a body whose goals are reached within a metre."""


class Footprint(NamedTuple):
    """A place where it has been, and the skill that led on from there."""

    place: NDArray[np.float64]
    skill: NDArray[np.float32]


class Simulation:
    """One body, its skills, and what it is to do. All methods are called from one thread."""

    def __init__(self, skills: Skills, seed: int = 0) -> None:
        self.mechanics = Mechanics(skills.world)
        self._draws = np.random.default_rng(seed)
        self.skills = skills
        self.paused, self.stands_up = False, True
        self.reached, self.stood_up = 0, 0
        self.goals: collections.deque[tuple[float, ...]] = collections.deque()
        self.trail: collections.deque[Footprint] = collections.deque(maxlen=TRAIL)
        self.state: WorldState
        self._command: NDArray[np.float32] | None = None
        self._decided = 0
        self.skill = skills.sample(1, seed)[0]
        self.reset()
        self.use(skills)

    # --- what people do ------------------------------------------------------------------------------------------

    def use(self, skills: Skills) -> None:
        """Go on with other skills of the same body; a skill of theirs is drawn, goals stay."""
        if skills.spec.name != self.skills.spec.name:
            raise UserError(f"these are skills of {skills.spec.name}, and this body is of {self.skills.spec.name}")
        if skills is not self.skills:
            self.mechanics = Mechanics(skills.world)
        self.skills = skills
        self.skill = skills.sample(1, int(self._draws.integers(2**31)))[0]
        self._command, self._decided = None, 0
        self.trail.clear()
        self._begin_here()

    def reset(self) -> None:
        """Back to the start, without goals."""
        self.state = self.mechanics.start(int(self._draws.integers(2**31)))
        self.goals.clear()
        self.trail.clear()
        self._command = None
        self.seconds, self.steps, self._lies, self.reached, self._holds = 0.0, 0, 0.0, 0, False
        self._look()
        self._begin_here()

    def pick(self, skill: ArrayLike) -> None:
        """Act by this skill from now on; goals are dropped."""
        self.skill = self.skills.nearest(np.asarray(skill, np.float32))
        self.goals.clear()
        self._command, self._holds = None, False
        self._begin_here()

    def pick_any(self) -> None:
        """Act by a random skill."""
        self.pick(self.skills.sample(1, int(self._draws.integers(2**31)))[0])

    def go_to(self, goal: tuple[float, ...]) -> None:
        """Go there, after the goals that are there already."""
        if len(goal) not in goal_sizes(self.mechanics.spec) or not np.all(np.isfinite(goal)):
            raise UserError(f"{goal} is no place to {self.mechanics.spec.name}")
        self.skills.towards(self.obs, np.asarray(goal, np.float32))  # refuses skills that cannot be chosen by a goal
        if self._holds:
            self.goals.clear()
        self._holds = False
        self.goals.append(tuple(float(x) for x in goal))

    def drop_goals(self, all_of_them: bool = True) -> None:
        """Forget all goals, or the one that it is going to."""
        if all_of_them:
            self.goals.clear()
        elif self.goals:
            self.goals.popleft()
        self._holds = False
        if not self.goals:
            self._begin_here()

    def push(self, direction: ArrayLike | None = None) -> None:
        """Push the body, or the object, along a direction on the plane, or along any."""
        angle = self._draws.uniform(0.0, 2 * np.pi)
        along = np.array([np.cos(angle), np.sin(angle)]) if direction is None else np.asarray(direction, np.float64)[:2]
        along = along / max(float(np.linalg.norm(along)), 1e-9)
        speed = PUSH * np.sqrt(self.mechanics.radius)
        self.state = self.mechanics.pushed(self.state, speed * along)
        self._look()

    def put_up(self) -> None:
        """Put a fallen body on its feet where it is, or a dropped object back."""
        self.state = self.mechanics.put_up(self.state, int(self._draws.integers(2**31)))
        self._lies, self._command = 0.0, None
        self.stood_up += 1
        self._look()

    def greet(self) -> None:
        """Before anybody says otherwise: go a little way and stay there, or follow a random skill."""
        if self.mechanics.carries_object or not self.mechanics.on_floor:
            return
        ahead = 4.0 * self.mechanics.radius * np.array([1.0, -0.6])
        with contextlib.suppress(UserError):  # these skills cannot be chosen by a goal
            self.go_to(tuple(float(x) for x in (self.place[:2] + ahead)[: self.mechanics.plane]))

    # --- what happens --------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One control step."""
        self._choose()
        after = self.mechanics.step(self.state, self._act())
        self.steps += 1
        self.seconds += self.mechanics.seconds
        if self.mechanics.broken(after):
            self.put_up()
            return
        before, self.state = self.place, after
        self._look()
        self.trail.append(Footprint(before, self.skill))
        self._lies = self._lies + self.mechanics.seconds if self._is_down else 0.0
        if self.fallen and self.stands_up:
            self.put_up()

    def _choose(self) -> None:
        """The skill towards the goal; goals that are reached are crossed off, and the last one is kept to."""
        while len(self.goals) > 1 and self._arrived():
            self.goals.popleft()
            self.reached, self._holds = self.reached + 1, False
        if not self.goals:
            return
        if not self._holds and self._arrived():
            self.reached, self._holds = self.reached + 1, True
        self.skill = self.skills.towards(*self.mechanics.seen_on_the_way(self.obs, self.goals[0]))
        self._command = None if not self.skills.decides_every else self._command

    def _arrived(self) -> bool:
        return self.mechanics.distance(self.obs, self.goals[0]) <= self.mechanics.radius

    def _act(self) -> NDArray[np.float32]:
        if self.goals:
            obs = self.mechanics.seen_on_the_way(self.obs, self.goals[0])[0][None]
        else:
            obs = self.mechanics.seen_from(self.obs, self._anchor)[None]
        if not self.skills.decides_every:
            return self.skills.act(obs, self.skill)
        if self._command is None or self._decided >= self.skills.decides_every:
            self._command, self._decided = self.skills.decide(obs, self.skill), 0
        self._decided += 1
        return self.skills.follow(obs, self._command)

    def _look(self) -> None:
        seen = self.mechanics.look(self.state)
        self.obs = seen.obs[0]
        self._is_down = self.mechanics.down(seen)

    def _begin_here(self) -> None:
        """What a skill does from here on, it does as if an episode began here: all places on the floor are alike."""
        self._anchor = self.mechanics.position(self.obs).copy()

    # --- what there is to see ------------------------------------------------------------------------------------

    @property
    def place(self) -> NDArray[np.float64]:
        """Where the body, or the object, is drawn: x, y and z."""
        return self.mechanics.drawn(self.obs)

    @property
    def fallen(self) -> bool:
        """Whether it has been lying for a while."""
        return self._lies >= LIES_FOR

    @property
    def waits(self) -> bool:
        """Whether it keeps to the last goal, which it has reached."""
        return self._holds

    def goal_place(self, goal: tuple[float, ...]) -> NDArray[np.float64]:
        """Where a goal is drawn: x, y and z."""
        found = np.array([0.0, 0.0, self.mechanics.ground])
        found[: len(goal)] = goal
        return found

    def phi(self) -> NDArray[np.float32]:
        """Where the body is on the learned map; NaN if there is none."""
        return self.skills.phi(self.obs)

    def phi_of_goal(self) -> NDArray[np.float32] | None:
        """Where the goal is on the learned map: where this state would be with the goal's place."""
        if not self.goals:
            return None
        there = self.obs.copy()
        there[list(goal_entries(self.mechanics.spec, len(self.goals[0])))] = self.goals[0]
        return self.skills.phi(there)
