"""The system call filter of a sandbox, compiled to classic BPF here and loaded inside by the child of each call.

Three answers. "Breach": a call that only an escape needs; the caller is stopped and the supervisor hears of it through the
filter's listener, which the policy's code cannot reach. "Quiet": refused with EPERM, for what harmless programs try too.
Everything else is allowed. The filter is the second wall: name spaces, an unprivileged user and read-only mounts are the first.
"""

import errno
import platform
import struct

_ALLOW, _NOTIFY, _ERRNO, _KILL_PROCESS = 0x7FFF0000, 0x7FC00000, 0x00050000, 0x80000000
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data; both machines are little-endian
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET

_AUDIT_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (x86_64, aarch64); None where that machine has no such call.
_BREACH: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "open_by_handle_at": (304, 265),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "iopl": (172, None),
    "ioperm": (173, None),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "mount_setattr": (442, 442),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "kcmp": (312, 272),
}

_QUIET: dict[str, tuple[int | None, int | None]] = {
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "setpriority": (141, 140),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setaffinity": (203, 122),
    "ioprio_set": (251, 30),
    "personality": (135, 92),
    "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264),
    "syslog": (103, 116),
    "seccomp": (317, 277),
    "modify_ldt": (154, None),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
}

_SPECIAL = {"clone": (56, 220), "clone3": (435, 435), "prlimit64": (302, 261), "socket": (41, 198)}
_SECCOMP = (317, 277)


def supported() -> bool:
    """Whether this machine's system call numbers are known here."""
    return platform.machine() in _AUDIT_ARCHITECTURE


def seccomp_number() -> int:
    """The number of seccomp(2) on this machine."""
    return _SECCOMP[_column()]


def breach_names() -> tuple[str, ...]:
    """The calls that end a call as a breach, besides clone with a new name space."""
    return tuple(name for name, numbers in _BREACH.items() if numbers[_column()] is not None)


def quiet_names() -> tuple[str, ...]:
    """The calls that are refused without being a breach, besides arguments that are looked at."""
    return tuple(name for name, numbers in _QUIET.items() if numbers[_column()] is not None)


def profile_architecture() -> str:
    """This machine's name in a container engine's profile."""
    return {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}[platform.machine()]


def compile_filter() -> bytes:
    """The filter as an array of struct sock_filter, for seccomp(2) with SECCOMP_FILTER_FLAG_NEW_LISTENER."""
    column = _column()
    refuse = _ERRNO | errno.EPERM
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, _AUDIT_ARCHITECTURE[platform.machine()]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_AT_LEAST, 0, 1, 0x40000000),  # x86-64's second table (x32) would bypass the numbers below
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    for table, action in ((_BREACH, _NOTIFY), (_QUIET, refuse)):
        for numbers in table.values():
            number = numbers[column]
            if number is not None:
                program += [(_JUMP_EQUAL, 0, 1, number), (_RETURN, 0, 0, action)]
    # Its flags lie in memory, where a filter cannot see them; the C library falls back to clone.
    program += [
        (_JUMP_EQUAL, 0, 1, _SPECIAL["clone3"][column]),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    program += _on_argument(_SPECIAL["clone"][column], (_JUMP_ANY_BIT, _NEW_NAMESPACES), _NOTIFY, _ALLOW)
    # A limit of another process (the supervisor has the same user where there is only one) is none of its business.
    program += _on_argument(_SPECIAL["prlimit64"][column], (_JUMP_EQUAL, 0), _ALLOW, refuse)
    program += _on_argument(_SPECIAL["socket"][column], (_JUMP_EQUAL, 1), _ALLOW, _ERRNO | errno.EAFNOSUPPORT)
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


def _on_argument(
    number: int, test: tuple[int, int], when_true: int, when_false: int
) -> list[tuple[int, int, int, int]]:
    return [
        (_JUMP_EQUAL, 0, 4, number),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (test[0], 0, 1, test[1]),
        (_RETURN, 0, 0, when_true),
        (_RETURN, 0, 0, when_false),
    ]


def _column() -> int:
    return 0 if platform.machine() == "x86_64" else 1
