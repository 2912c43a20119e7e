"""The configuration of a run: dataclasses, their checks, JSON in and out."""

from wanderlust.catalogue import Variant
from wanderlust.config.bounds import Count, CountOrZero, Positive, Share, Weight, Widths, check_bound, check_bounds
from wanderlust.config.reading import build, check_changes, flat, from_json, labelled, parsed, to_json, with_changes
from wanderlust.config.run import (
    DriverName,
    EngineName,
    EnvConfig,
    MethodConfig,
    Precision,
    RunConfig,
    SacConfig,
    ScheduleConfig,
    SkillConfig,
    StageConfig,
    StagedConfig,
    method_config,
)
from wanderlust.errors import require, require_at_least, require_positive
