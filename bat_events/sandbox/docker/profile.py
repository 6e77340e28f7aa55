"""The system call profile that the engine loads around a whole container, supervisor included.

The child of a call loads the stricter filter of `seccomp` inside of this one. Of two filters the kernel obeys the harsher answer,
so what that filter must hear of, to call it a breach, is let through here: a policy that mounts is judged alike on both engines.
"""

import json

from bat_events.sandbox import seccomp

_ERRNO_EPERM = 1
# The supervisor and its start need these once; the filter of every call refuses them.
_FOR_THE_SUPERVISOR = {"seccomp", "personality"}


def seccomp_profile() -> str:
    """The profile as the engine's API takes it: JSON, for this machine's own system call table only."""
    refused = sorted(set(seccomp.quiet_names()) - _FOR_THE_SUPERVISOR)
    profile = {
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [seccomp.profile_architecture()],  # any other table, x32 among them, is no call at all
        "syscalls": [{"names": refused, "action": "SCMP_ACT_ERRNO", "errnoRet": _ERRNO_EPERM}],
    }
    return json.dumps(profile)
