"""What skills are good for: tasks with rewards, and ways to choose a skill for them."""
