"""Networks, running statistics, SAC, PPO and replay; nothing here knows a method."""
