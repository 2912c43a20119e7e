"""The paper's tables and figures, one file each."""

from wanderlust_experiments import ablation, coverage, point_goals

__all__ = ["ITEMS", "ablation", "coverage", "point_goals"]

ITEMS = {
    "point-goals": "zero-shot LSD, DIAYN and DIAYN-XYO on PointGoal and PointMultiGoals (both tables of the appendix)",
    "ablation": "LSD with each component of its reward replaced (the ablation study of the appendix)",
    "coverage": "coverage, ||s_T - s_0|| and trajectories of all methods with equal steps and updates (figures 2, 3)",
}
