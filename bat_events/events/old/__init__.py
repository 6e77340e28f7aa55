"""Earlier versions of events, one module per event module; importing this registers them (see events.base).

To change an event: move its class here as it is, name it `…V1`, give it SUCCESSOR and `upcast`, and raise VERSION where it
was. Its docstring and field descriptions stand in the committed schema and stay as they were.
"""

from bat_events.events.old import bank, boundary, campaign, rewards, rollouts

__all__ = ["bank", "boundary", "campaign", "rewards", "rollouts"]
