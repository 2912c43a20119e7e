"""Drive a robot with exported skills: NumPy, ONNX Runtime and Gymnasium, without JAX and without wanderlust.

wanderlust export zoo:ant --to onnx --out ant-onnx
python examples/onnx_drive.py ant-onnx                     a random skill; --seed 3 another, --skill 1 0.5 a given one
python examples/onnx_drive.py ant-onnx --goal 12 4         at every step the skill that leads there
"""

import argparse
import json
from pathlib import Path

import gymnasium
import numpy as np
import onnxruntime

parser = argparse.ArgumentParser(description="Drive a robot with exported skills.")
parser.add_argument("folder", type=Path, help="what `wanderlust export` wrote")
parser.add_argument("--skill", type=float, nargs="+", help="the vector z; by default a random one")
parser.add_argument("--goal", type=float, nargs="+", help="where to go instead: X Y, or X along a line")
parser.add_argument("--seed", type=int, default=0, help="of the start and the random skill")
args = parser.parse_args()
card = json.loads((args.folder / "onnx.json").read_text())
world, skill, place = card["env"], card["skill"], card["observation"]["position"]
if args.goal and not (card["phi"] and card["phi"]["towards_goal"]):
    raise SystemExit(f"{card['method']} does not go to goals by differences of phi")

policy = onnxruntime.InferenceSession(args.folder / "policy.onnx")
phi = onnxruntime.InferenceSession(args.folder / "phi.onnx") if args.goal else None
env = gymnasium.make(world["gymnasium"]["id"], **world["gymnasium"]["options"])
low, high = np.array(world["control"]["low"]), np.array(world["control"]["high"])


def along(x):
    """The skill along a vector: of the usual length, or the discrete one where it is largest."""
    return np.eye(skill["size"])[x.argmax()] if skill["kind"] == "discrete" else skill["length"] * x / np.linalg.norm(x)


obs, _ = env.reset(seed=args.seed)
start = obs[place]
z = args.skill or along(np.random.default_rng(args.seed).normal(size=skill["size"]))
for _ in range(world["episode_length"]):
    if phi:
        goal = obs.copy()  # the goal is the state it is in, elsewhere
        goal[place] = args.goal
        there, here = phi.run(["phi"], {"observation": np.array([goal, obs], np.float32)})[0]
        z = along(there - here)
    inputs = {"observation": np.array([obs], np.float32), "skill": np.array([z], np.float32)}
    action = policy.run(["action"], inputs)[0][0]  # in [-1, 1]
    obs, _, fell, _, _ = env.step(low + (action + 1) / 2 * (high - low))
    if fell or (args.goal and np.linalg.norm(obs[place] - args.goal) < 1):
        break
print(f"from {np.round(start, 2)} to {np.round(obs[place], 2)}: {np.linalg.norm(obs[place] - start):.2f} m")
