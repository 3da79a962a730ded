"""Which errors a system call may return, of those that an operator meets; from the manual's ERRORS.

Whatever cannot fail in these ways (getpid, sigaction, umask, …) has no entry. `close` has none either:
strace would not execute it, so that the descriptor stayed open, which no kernel does. Nor has `brk`,
which returns no error but the old end of the heap.
"""

# A file system whose disk fails, or is full; tables and memory of the kernel that are exhausted; a
# signal that comes at the wrong moment.
BY_NAME = {
    "access": ("EIO", "ENOMEM"),
    "clone": ("EAGAIN", "ENOMEM"),
    "clone3": ("EAGAIN", "ENOMEM"),
    "fallocate": ("EINTR", "EIO", "ENOSPC"),
    "fchmod": ("EIO", "ENOMEM"),
    "fchown": ("EIO", "ENOMEM"),
    "fdatasync": ("EIO", "ENOSPC", "EINTR"),
    "flock": ("EINTR", "ENOLCK"),
    "fsync": ("EIO", "ENOSPC", "EINTR"),
    "ftruncate": ("EINTR", "EIO", "ENOSPC"),
    "getcwd": ("ENOMEM",),
    "getdents64": ("EIO", "ENOMEM"),
    "getrandom": ("EINTR",),
    "link": ("EIO", "ENOMEM", "ENOSPC"),
    "linkat": ("EIO", "ENOMEM", "ENOSPC"),
    "mkdir": ("ENOMEM", "ENOSPC", "EIO"),
    "mmap": ("ENOMEM",),
    "newfstatat": ("EIO", "ENOMEM"),
    "openat": ("EIO", "EMFILE", "ENOMEM"),
    "pidfd_open": ("EMFILE", "ENOMEM"),
    "poll": ("EINTR", "ENOMEM"),
    "ppoll": ("EINTR", "ENOMEM"),
    "pread64": ("EIO", "EINTR"),
    "pwrite64": ("EIO", "ENOSPC", "EINTR"),
    "read": ("EIO", "EINTR"),
    "readlink": ("EIO", "ENOMEM"),
    "readlinkat": ("EIO", "ENOMEM"),
    "rename": ("EIO", "ENOMEM", "ENOSPC"),
    "renameat": ("EIO", "ENOMEM", "ENOSPC"),
    "signalfd4": ("EMFILE", "ENOMEM"),
    "statfs": ("EINTR", "EIO", "ENOMEM"),
    "statx": ("EIO", "ENOMEM"),
    "unlink": ("EIO", "ENOMEM"),
    "unlinkat": ("EIO", "ENOMEM"),
    "vfork": ("EAGAIN", "ENOMEM"),
    "wait4": ("EINTR",),
    "waitid": ("EINTR",),
    "write": ("EIO", "ENOSPC", "EINTR"),
}


def errors_of(point, line):
    """The errors of one call, by its name and what it was asked."""
    if point.name == "fcntl":
        # Flags of a descriptor cannot fail; locks can, and so can a duplicate.
        if "SETLK" in line or "GETLK" in line:
            return ("EINTR", "ENOLCK")
        return ("EMFILE",) if "F_DUPFD" in line else ()
    if point.name == "openat":
        created = ("ENOSPC",) if "O_CREAT" in line or "O_TMPFILE" in line else ()
        return BY_NAME["openat"] + created
    if point.name in ("poll", "ppoll", "read") and ("EAGAIN" in line or "signalfd" in line):
        return tuple(error for error in BY_NAME[point.name] if error != "EIO")
    if point.name == "madvise" and "MADV_POPULATE" in line:
        return ("ENOMEM",)
    return BY_NAME.get(point.name, ())
