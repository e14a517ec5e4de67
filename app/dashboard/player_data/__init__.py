"""What the player draws of an episode: plots of its signals, and ticks of its timeline."""

from __future__ import annotations

from app.dashboard.player_data.charts import signal_plots
from app.dashboard.player_data.timeline_events import timeline_ticks

__all__ = ["signal_plots", "timeline_ticks"]
