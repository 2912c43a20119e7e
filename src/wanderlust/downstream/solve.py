"""A task, skills and somebody who chooses among them: learn if that takes learning, measure, write it all down.

RUN/downstream/TASK-CONTROLLER/
  result.json              returns per seed beside those of random skills, and what the skills' speed allows
  curve.jsonl              the learning curve, one line per `log_every` epochs (controllers that learn)
  controller.safetensors   what was learned, so that it can be measured again
  paths.safetensors        where bodies went in the first episodes, and the goals they had
"""

import dataclasses
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from wanderlust import train
from wanderlust.config import Engine
from wanderlust.discovery import ctrl_c
from wanderlust.downstream import checkpoint, hierarchy
from wanderlust.downstream.checks import check
from wanderlust.downstream.hierarchy import Player
from wanderlust.downstream.learners import Learner, make_learner
from wanderlust.downstream.planning import planning_hand
from wanderlust.downstream.playing import Game, Hand, make_game, make_play, returns
from wanderlust.downstream.settings import HOLD, HOLDS, Setting, get_setting
from wanderlust.downstream.tasks import GoalTask, make_task
from wanderlust.downstream.zero_shot import skill_speed, within_reach, zero_shot_hand
from wanderlust.envs.models import muted
from wanderlust.errors import UserError
from wanderlust.files import append_line_json, write_arrays, write_atomic, write_json
from wanderlust.learned import Learned
from wanderlust.metrics import summarise
from wanderlust.progress import progress
from wanderlust.runs import provenance
from wanderlust.skillset import Source, load_learner, open_source
