"""The panel beside the scene: what can be done, and what is known. It asks the loop, and touches no simulation."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import viser
from numpy.typing import NDArray

from wanderlust.errors import UserError
from wanderlust.report.explorer.loop import Loop
from wanderlust.report.explorer.paths import Paths, map_of
from wanderlust.report.explorer.pictures import MapPicture, heading, hex_colour, hint, skill_colours, skill_text
from wanderlust.report.explorer.scene import Scene
from wanderlust.report.explorer.simulation import Simulation
from wanderlust.runs.loading import Skills

OFTEN = 0.2
"""Seconds between two drawings of the panel."""
MOST_SLIDERS = 16
NO_FLOOR = "Where this body is, is measured in {unit}, not in metres on the floor: pick skills, and watch the map."
ARROWS = "→↗↑↖←↙↓↘"


class Panel:
    """The controls of an explorer."""

    def __init__(
        self,
        server: viser.ViserServer,
        loop: Loop,
        scene: Scene,
        choices: Sequence[str],
        choose: Callable[[str], None],
        find_paths: Callable[[], None],
    ) -> None:
        self._find_paths = find_paths
        self._gui, self._loop, self._scene = server.gui, loop, scene
        self._map: MapPicture | None = None
        self._drawn, self._touched, self._note = 0.0, 0.0, ""
        self._sliders: list[Any] = []
        self._list: Any = None
        self._name, self._about = "", ""
        self._theme()
        self._top = self._gui.add_html("")
        if len(choices) > 1:
            self._sets = self._gui.add_dropdown("Skills", list(choices), initial_value=choices[0])
            self._on(self._sets, lambda: choose(self._sets.value))
        self._add_body()
        self._skill_folder = self._gui.add_folder("Skill")
        self._add_goals()
        self._map_folder = self._gui.add_folder("Learned map φ", visible=False)
        with self._map_folder:
            self._map_html = self._gui.add_html("")
        self._add_view()

    def _theme(self) -> None:
        self._gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(9, 105, 218))
        self._gui.set_panel_label("wanderlust")
        self._gui.main_panel.dock_right()
        self._gui.main_panel.set_width(330)

    def _on(self, control: Any, do: Callable[[], None]) -> None:
        """Do something when a person has changed a control, not when the program has."""

        def changed(event: Any) -> None:
            if event.client is not None:
                do()

        control.on_update(changed)

    def _click(self, button: Any, do: Callable[[], None]) -> None:
        button.on_click(lambda event: do())

    # --- the controls --------------------------------------------------------------------------------------------

    def _add_body(self) -> None:
        gui, ask = self._gui, self._loop.ask
        self._pause = gui.add_button_group("Simulation", ("Pause", "Reset"))
        hand = gui.add_button_group("Body", ("Push", "Stand up"))
        self._speed = gui.add_slider("Speed", min=0.25, max=4.0, step=0.25, initial_value=1.0)
        self._click(self._pause, lambda: ask(self._reset if self._pause.value == "Reset" else self._pause_or_resume))
        self._click(hand, lambda: ask(lambda s: s.push() if hand.value == "Push" else s.put_up()))
        self._on(self._speed, lambda: ask(lambda _: self._set_speed()))

    def _add_goals(self) -> None:
        gui, ask = self._gui, self._loop.ask
        with gui.add_folder("Goals"):
            self._goal_hint = gui.add_html("")
            group = gui.add_button_group("Queue", ("Skip one", "Clear"))
        self._click(group, lambda: ask(lambda s: s.drop_goals(all_of_them=group.value == "Clear")))

    def _add_view(self) -> None:
        gui, ask = self._gui, self._loop.ask
        with gui.add_folder("Options", expand_by_default=False):
            self._stands = gui.add_checkbox("Stands up by itself", True)
            self._follow = gui.add_checkbox("Follow the body", True)
            self._spread = gui.add_checkbox("Paths of random skills", True)
            self._ring = gui.add_checkbox("Disc of skills", True)
        self._on(self._stands, lambda: ask(self._set_stands_up))
        self._on(self._follow, lambda: ask(lambda _: setattr(self._scene, "follow", self._follow.value)))
        self._on(self._spread, lambda: ask(lambda _: self._scene.hide("paths", not self._spread.value)))
        self._on(self._ring, lambda: ask(lambda _: self._scene.hide("disc", not self._ring.value)))

    def _reset(self, simulation: Simulation) -> None:
        simulation.reset()
        self._scene.jump(simulation)
        if self._map is not None:
            self._map.forget()

    def _pause_or_resume(self, simulation: Simulation) -> None:
        simulation.paused = not simulation.paused
        self._pause.options = ("Go on" if simulation.paused else "Pause", "Reset")

    def _set_speed(self) -> None:
        self._loop.speed = float(self._speed.value)

    def _set_stands_up(self, simulation: Simulation) -> None:
        simulation.stands_up = self._stands.value

    # --- what a set of skills changes ----------------------------------------------------------------------------

    def show_skills(self, name: str, about: str, skills: Skills, simulation: Simulation) -> None:
        """The controls of another set of skills."""
        self._name, self._about = name, about
        for child in tuple(self._skill_folder._children.values()):
            child.remove()
        self._sliders, self._list = [], None
        with self._skill_folder:
            if skills.discrete:
                self._list = self._gui.add_dropdown("Skill", [f"{k}" for k in range(skills.skill_dim)])
                self._on(self._list, self._picked_from_list)
            else:
                if skills.skill_dim == 2:
                    self._gui.add_html(hint("Click inside the ring, or drag along it. Colours are those of the paths."))
                for k in range(min(skills.skill_dim, MOST_SLIDERS)):
                    start = _on_slider(simulation.skill[k])
                    slider = self._gui.add_slider(f"z{k + 1}", min=-2.0, max=2.0, step=0.05, initial_value=start)
                    self._on(slider, self._picked_by_sliders)
                    self._sliders.append(slider)
            more = self._gui.add_button_group("Random", ("Another skill", "Paths from here"))
            self._click(more, lambda: self._pick_any() if more.value == "Another skill" else self._find_paths())
        self._goal_hint.content = hint(self._advice(skills, simulation))
        self._map = None
        self._map_folder.visible = False

    def _advice(self, skills: Skills, simulation: Simulation) -> str:
        try:
            place = simulation.mechanics.place(simulation.obs)[: simulation.mechanics.plane]
            skills.towards(simulation.obs, place.astype(np.float32))
        except UserError as refusal:
            return str(refusal)
        if not simulation.mechanics.on_floor:
            return NO_FLOOR.format(unit=simulation.mechanics.unit)
        if simulation.mechanics.carries_object:
            return "Click the table: the object goes there. Click again for more goals. A click on it pushes it."
        return "Click the floor: the body goes there. Click again for more goals. A click on the body pushes it."

    def show_paths(self, paths: Paths, skills: Skills, unit: str = "m") -> None:
        """The map, and what the skills of a list do, once their paths are known."""
        found = map_of(paths)
        self._map_folder.visible = found is not None
        kind = "discrete" if skills.discrete else "continuous"
        if found is not None:
            self._map = MapPicture(*found, paths.phi, skill_colours(paths.skill, kind))
        if self._list is not None and len(paths.skill) == skills.skill_dim:
            moved = (paths.place[-1] - paths.place[0])[:, :2]
            chosen = str(self._list.value).split()[0]
            arrows = [_arrow(by) if unit == "m" else "" for by in moved]
            labels = [
                f"{k}  {a} {np.linalg.norm(by):.3g} {unit}" for k, (a, by) in enumerate(zip(arrows, moved, strict=True))
            ]
            self._list.options = labels
            self._list.value = labels[int(chosen)]

    def _picked_from_list(self) -> None:
        index = int(str(self._list.value).split()[0])
        self._loop.ask(lambda s: s.pick(np.eye(s.skills.skill_dim, dtype=np.float32)[index]))

    def _picked_by_sliders(self) -> None:
        self._touched = time.monotonic()
        z = np.array([slider.value for slider in self._sliders], np.float32)

        def pick(simulation: Simulation) -> None:
            skill = simulation.skill.copy()
            skill[: len(z)] = z
            simulation.pick(skill)

        self._loop.ask(pick)

    def _pick_any(self) -> None:
        self._loop.ask(lambda simulation: simulation.pick_any())

    # --- drawn again and again -----------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Say something at the top, until something else is said."""
        self._note = text

    def draw(self, simulation: Simulation) -> None:
        """Bring the panel to where the simulation is."""
        if time.monotonic() - self._drawn < OFTEN:
            return
        self._drawn = time.monotonic()
        skills = simulation.skills
        kind = "discrete" if skills.discrete else "continuous"
        colour = hex_colour(skill_colours(simulation.skill[None], kind)[0])
        fallen = "the object has fallen" if simulation.mechanics.carries_object else "the body has fallen"
        warning = self._note or (fallen if simulation.fallen else "")
        self._top.content = heading(
            self._name, self._about, self._pace(simulation), colour, _doing(simulation), warning
        )
        self._follow_skill(simulation)
        if self._map is not None:
            self._map_html.content = self._map.draw(simulation.phi(), simulation.phi_of_goal(), colour)

    def _pace(self, simulation: Simulation) -> str:
        pace = self._loop.pace
        how = "paused" if simulation.paused else "" if pace is None else f"{pace:.2f} x real time"
        return " · ".join(x for x in (f"{simulation.seconds:.1f} s", how) if x)

    def _follow_skill(self, simulation: Simulation) -> None:
        """Show the skill that goals have chosen."""
        for slider, value in zip(self._sliders, simulation.skill, strict=False):
            if abs(slider.value - _on_slider(value)) > 0.04 and time.monotonic() - self._touched > 1.0:
                slider.value = _on_slider(value)
        if self._list is not None:
            label = self._list.options[int(np.argmax(simulation.skill))]
            if self._list.value != label:
                self._list.value = label


def _on_slider(value: float) -> float:
    return float(np.clip(round(float(value) / 0.05) * 0.05, -2.0, 2.0))


def _arrow(by: NDArray[np.float64]) -> str:
    return ARROWS[round(float(np.arctan2(by[1], by[0])) / (np.pi / 4)) % 8]


def _doing(simulation: Simulation) -> str:
    """What the body is doing, in words."""
    acts = skill_text(simulation.skill, simulation.skills.discrete)
    if not simulation.goals:
        return acts
    number = simulation.reached + (0 if simulation.waits else 1)
    if simulation.waits:
        return f"goal {number} reached; it stays there"
    away = simulation.mechanics.distance(simulation.obs, simulation.goals[0])
    more = f", {len(simulation.goals) - 1} more" if len(simulation.goals) > 1 else ""
    return f"to goal {number}, {away:.3g} m away{more}; {acts}"
