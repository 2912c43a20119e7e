"""The explorer as a whole: skills, a simulation, its loop, and the page that shows them."""

import asyncio
import contextlib
import io
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import numpy as np

from wanderlust.envs import WorldState
from wanderlust.errors import UserError
from wanderlust.report.explorer.gate import Gate, check_port, is_loopback
from wanderlust.report.explorer.loop import Loop
from wanderlust.report.explorer.mechanics import require_drawable
from wanderlust.report.explorer.paths import Paths, compass, random_paths
from wanderlust.report.explorer.simulation import Simulation
from wanderlust.runs import entries, zoo
from wanderlust.runs.loading import Skills, load
from wanderlust.runs.run import Run

DRIVABLE = ("ant-drive", "ant-agile-10", "ant-agile")
"""Entries of the zoo to begin with, the best one first."""
OLDEST_VISER = (1, 0, 27)


class SkillSet(NamedTuple):
    """Skills that the panel offers."""

    name: str
    run: Run
    seed: int


def require_viser() -> None:
    """Refuse to go on without the viewer."""
    advice = "pip install 'wanderlust[explorer]'"
    try:
        found = version("viser")
    except PackageNotFoundError:
        raise UserError(f"the explorer needs viser: {advice}") from None
    if tuple(int(part) for part in found.split(".")[:3] if part.isdecimal()) < OLDEST_VISER:
        raise UserError(f"viser {found} is too old for the explorer: {advice} --upgrade")


def usual_entry() -> str:
    """The entry of the zoo that is best to drive."""
    have = entries.names()
    for name in DRIVABLE:
        if name in have:
            return f"{entries.PREFIX}{name}"
    raise UserError(f"no RUN given, and the zoo has none of {', '.join(DRIVABLE)}; name the folder of a run")


def offered(runs: Sequence[Run], seed: int) -> list[SkillSet]:
    """The sets to choose from: what was asked for, and then all of the zoo for the same body."""
    env = runs[0].config.env
    for run in runs:
        run.check_seed(seed)
        if run.config.env.name != env.name:
            raise UserError(f"{runs[0]} is of {env.name} and {run} of {run.config.env.name}; explore them one by one")
    found = {str(run): SkillSet(str(run), run, seed) for run in runs}
    for name in entries.names():
        label = f"{entries.PREFIX}{name}"
        with contextlib.suppress(UserError):  # a damaged entry is not offered
            run = zoo.open_run(label)
            if run.config.env.name == env.name:
                found.setdefault(label, SkillSet(label, run, 0))
    return list(found.values())


class Explorer:
    """A page on which people drive a body. Begin with `open`, end with `close`."""

    def __init__(self, sets: Sequence[SkillSet], seed: int = 0) -> None:
        self.sets = {one.name: one for one in sets}
        first = sets[0]
        self._skills = load_skills(first)
        require_drawable(self._skills.world)
        self.simulation = Simulation(self._skills, seed)
        self.simulation.greet()
        self._gate: Any = None
        self._finders: list[threading.Thread] = []

    def open(self, host: str = "127.0.0.1", port: int = 8080) -> str:
        """Serve the page, and say at which address."""
        check_port(host, port)
        inside = is_loopback(host)
        with _quietly():
            self.server = _make_server(host if inside else "127.0.0.1", port if inside else 0)
        if inside and self.server.get_port() != port:  # taken meanwhile: viser takes the next one without a word
            free = self.server.get_port()
            self.close()
            raise UserError(f"port {port} is taken; --port {free} is free")
        self._build()
        if inside:
            return f"http://{'localhost' if host == 'localhost' else _shown(host)}:{port}"
        token = secrets.token_urlsafe(16)
        gate = Gate(token, self.server.get_port())
        future = asyncio.run_coroutine_threadsafe(gate.open(host, port), self.server.get_event_loop())
        self._gate = future.result(timeout=10)
        return f"http://{_shown(host)}:{port}/?token={token}"

    def close(self) -> None:
        """End the simulation and the server."""
        if hasattr(self, "loop"):
            self.loop.stop()
        for finder in self._finders:  # a thread that computes while the interpreter ends would break it off
            finder.join()
        if self._gate is not None:
            self.server.get_event_loop().call_soon_threadsafe(self._gate.close)
        with _quietly():
            self.server.stop()

    def wait(self) -> None:
        """Until the simulation ends, which it does by an error only."""
        while not self.loop.over.wait(timeout=3600.0):
            pass
        if self.loop.failure is not None:
            raise self.loop.failure

    # --- putting it together -------------------------------------------------------------------------------------

    def _build(self) -> None:
        from wanderlust.report.explorer.panel import Panel
        from wanderlust.report.explorer.scene import Scene

        self.scene = Scene(self.server, self.simulation)
        self.loop = Loop(self.simulation, self._draw)
        self.panel = Panel(self.server, self.loop, self.scene, list(self.sets), self._choose, self._paths_from_here)
        self._listen()
        self._show(next(iter(self.sets.values())), self._skills)
        self.loop.start()

    def _draw(self, simulation: Simulation) -> None:
        self.scene.draw(simulation)
        self.panel.draw(simulation)

    def _listen(self) -> None:
        def watched(client: Any) -> None:
            self.loop.watch(bool(self.server.get_clients()))

        def clicked(event: Any) -> None:
            origin, ray = np.array(event.ray_origin), np.array(event.ray_direction)
            self.loop.ask(lambda simulation: self._clicked(simulation, origin, ray))

        self.server.on_client_connect(watched)
        self.server.on_client_disconnect(watched)
        self.server.scene.on_click()(clicked)

    def _clicked(self, simulation: Simulation, origin: Any, ray: Any) -> None:
        """A click on the disc picks a skill, one on the body pushes it, one on the floor is a goal."""
        self.panel.note("")
        moved = np.array([*self.scene.offset, 0.0])
        found = simulation.mechanics.hit(simulation.state, origin + moved, ray)
        if found is None:
            return
        place, body = found
        if body:
            simulation.push(ray)
            return
        self._point(simulation, origin, ray, place)

    def _point(self, simulation: Simulation, origin: Any, ray: Any, place: Any) -> None:
        """Pick the skill on the disc, or add a goal."""
        skill = None if self.scene.disc is None else self.scene.disc.skill_under(origin, ray)
        if skill is not None:
            simulation.pick(skill)
            return
        if not simulation.mechanics.on_floor:
            from wanderlust.report.explorer.panel import NO_FLOOR

            self.panel.note(NO_FLOOR.format(unit=simulation.mechanics.unit))
            return
        with self._noted():
            simulation.go_to(tuple(float(x) for x in place[: simulation.mechanics.plane]))

    @contextlib.contextmanager
    def _noted(self) -> Iterator[None]:
        """What a person can put right is said on the page."""
        try:
            yield
        except UserError as problem:
            self.panel.note(str(problem))

    # --- sets of skills ------------------------------------------------------------------------------------------

    def _choose(self, name: str) -> None:
        """Load another set, or the same one as it is now; called on a thread of the viewer's."""
        self.panel.note(f"loading {name} …")
        with self._noted():
            skills = load_skills(self.sets[name])

            def use(simulation: Simulation) -> None:
                simulation.use(skills)
                self._show(self.sets[name], skills)

            self.loop.ask(use)

    def _show(self, chosen: SkillSet, skills: Skills) -> None:
        config, kind = chosen.run.config, "discrete" if skills.discrete else f"{skills.skill_dim}-D"
        size = f"{skills.skill_dim} discrete skills" if skills.discrete else f"{kind} skills"
        self._skills = skills
        self.panel.note("")
        self.panel.show_skills(
            chosen.name, f"{size} of {config.env.name} by {config.method.name}", skills, self.simulation
        )
        self.scene.show_paths(None, kind, 0.0)
        has_disc = not skills.discrete and skills.skill_dim == 2
        self.scene.show_disc(np.eye(2) if has_disc else None)
        if has_disc:
            self._listen_to_disc()
        self._find_paths(skills, None)

    def _paths_from_here(self) -> None:
        self.loop.ask(lambda simulation: self._find_paths(simulation.skills, simulation.state))

    def _find_paths(self, skills: Skills, start: WorldState | None) -> None:
        """Try random skills on a thread of its own."""
        finder = threading.Thread(target=self._try_skills, args=(skills, start), name="paths")
        self._finders = [*(one for one in self._finders if one.is_alive()), finder]
        finder.start()

    def _try_skills(self, skills: Skills, start: WorldState | None) -> None:
        paths = random_paths(skills, start, stopped=self.loop.over.is_set)
        self.loop.ask(lambda simulation: self._show_paths(simulation, skills, paths))

    def _show_paths(self, simulation: Simulation, skills: Skills, paths: Paths) -> None:
        if skills is not self._skills:  # another set was chosen meanwhile
            return
        kind = "discrete" if skills.discrete else "continuous"
        mechanics = simulation.mechanics
        self.scene.show_paths(paths if mechanics.on_floor else None, kind, mechanics.ground)
        self.panel.show_paths(paths, skills, mechanics.unit)
        if self.scene.disc is not None and mechanics.on_floor:
            self.scene.show_disc(compass(paths))
            self._listen_to_disc()

    def _listen_to_disc(self) -> None:
        disc = self.scene.disc
        assert disc is not None

        async def dragged(event: Any) -> None:  # on the server's event loop: in the order of the hand
            eye = np.array(event.client.camera.position)
            skill = disc.skill_under(eye, np.array(event.end_position) - eye, anywhere=True)
            if skill is not None:
                self.loop.ask(lambda simulation: simulation.pick(skill))

        disc.ring.on_drag(dragged)
        disc.knob.on_drag(dragged)


def load_skills(chosen: SkillSet) -> Skills:
    """Read what a run has learned by now; a run that is being trained may take a checkpoint away meanwhile."""
    try:
        return load(chosen.run, chosen.seed)
    except FileNotFoundError:
        return load(chosen.run, chosen.seed)


def _make_server(host: str, port: int) -> Any:
    import viser

    class Server(viser.ViserServer):
        """One that opens no tunnel to the outside, whoever asks for it."""

        def request_share_url(self, verbose: bool = True) -> str | None:
            return None

    return Server(host=host, port=port, verbose=False)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without the viewer's banner."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def _shown(host: str) -> str:
    """A host as an address has it."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


Opened = Callable[[str], None]


def explore(runs: Sequence[Run], host: str, port: int, seed: int, opened: Opened) -> None:
    """Serve the explorer until it is interrupted; `opened` is told the address."""
    require_viser()
    check_port(host, port)
    explorer = Explorer(offered(runs, seed), seed)
    opened(explorer.open(host, port))
    try:
        explorer.wait()
    finally:
        explorer.close()
