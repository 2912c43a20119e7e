"""The paper's tables and figures, one file each."""

from wanderlust.reproduce import point_goals

__all__ = ["ITEMS", "point_goals"]

ITEMS = {
    "point-goals": "zero-shot LSD, DIAYN and DIAYN-XYO on PointGoal and PointMultiGoals (both tables of the appendix)",
}
