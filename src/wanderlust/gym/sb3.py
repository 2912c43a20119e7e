"""Our vector environments as Stable-Baselines3 takes them.

Stable-Baselines3 knows Gymnasium's single environments and vector environments of a kind of its own (`VecEnv`), but not
Gymnasium's vector environments. This is one of its kind around one of those: all worlds are still stepped in one call.

Nothing else imports this file: Stable-Baselines3 brings PyTorch, and comes with the extra `sb3` only.
"""

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers.vector import DictInfoToList
from numpy.typing import NDArray

from wanderlust.errors import UserError

try:
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as missing:
    lacking = (missing.name or "").partition(".")[0]
    raise UserError(
        f"wanderlust.gym.sb3 needs Stable-Baselines3 ({lacking} is not installed): pip install -e '.[sb3]'"
    ) from None


class SB3VecEnv(VecEnv):
    """A vector environment of ours (or any of Gymnasium's that observes arrays), for Stable-Baselines3's learners.

    It must begin ended episodes in the same step (``autoreset_mode="SameStep"``), as Stable-Baselines3 does. The last
    observation of an episode is then in its world's ``info["terminal_observation"]``, and
    ``info["TimeLimit.truncated"]`` says whether it was cut off, so that a learner knows what value is left. World k of
    ``seed(s)`` has the episodes of ``s + k``, as a single environment does.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any]) -> None:
        mode = envs.metadata.get("autoreset_mode")
        if mode is not AutoresetMode.SAME_STEP:
            said = mode.value if isinstance(mode, AutoresetMode) else mode
            raise UserError(f"SB3VecEnv: autoreset_mode is {said!r}; make the environment with 'SameStep'")
        self.envs, self._listing = envs, DictInfoToList(envs)
        self._actions: NDArray[Any] | None = None
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> NDArray[Any]:
        """Begin an episode in every world: the first of the seed, if one was given since the last reset."""
        if any(self._options):
            raise UserError("SB3VecEnv: worlds have no options of their own; leave out set_options()")
        seeds: Any = list(self._seeds)  # Gymnasium's annotation forgets that there may be one for each world
        obs, listed = self._listing.reset(seed=seeds)
        self.reset_infos: Any = listed
        self._reset_seeds()
        return np.asarray(obs)

    def step_async(self, actions: NDArray[Any]) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[Any], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        assert self._actions is not None, "step_async comes first"
        obs, reward, terminated, truncated, infos = self._listing.step(self._actions)
        self._actions = None
        for info, ended, cut in zip(infos, terminated, truncated, strict=True):
            info |= info.pop("final_info", {})
            info["TimeLimit.truncated"] = bool(cut and not ended)
            if ended or cut:
                info["terminal_observation"] = info.pop("final_obs")
        return np.asarray(obs), np.asarray(reward, np.float32), terminated | truncated, infos

    def close(self) -> None:
        self.envs.close()

    # --- what Stable-Baselines3 asks single environments for; here is one for all worlds ---------------------------

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self.envs, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise UserError(f"SB3VecEnv: worlds have no attributes of their own; set {attr_name!r} on .envs")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        raise UserError(f"SB3VecEnv: worlds have no methods of their own; call {method_name!r} of .envs")

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        return [False for _ in self._get_indices(indices)]
