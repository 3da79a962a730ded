/* Preloaded into oncerun: one of its looks at /proc fails, the one whose number is in FAIL_LOOK, as it
 * does when no descriptors are left. How many there are before depends on nothing else, while the
 * number of an openat(2) shifts with every process on the machine. Writes a byte to FAIL_LOOK_FD when
 * it has failed. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(const char* path) {
  static int looks;
  const char* which = getenv("FAIL_LOOK");
  if (which == NULL || strcmp(path, "/proc") != 0 || ++looks != atoi(which))
    return 0;
  (void)!write(atoi(getenv("FAIL_LOOK_FD")), "f", 1);
  errno = EMFILE;
  return 1;
}

#define OPENAT(name)                                                                               \
  int name(int at, const char* path, int flags, ...) {                                             \
    static int (*real)(int, const char*, int, ...);                                                \
    mode_t mode = 0;                                                                               \
    if (fails(path))                                                                               \
      return -1;                                                                                   \
    if (real == NULL)                                                                              \
      real = (int (*)(int, const char*, int, ...))dlsym(RTLD_NEXT, #name);                         \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                           \
      va_list more;                                                                                \
      va_start(more, flags);                                                                       \
      mode = va_arg(more, mode_t);                                                                 \
      va_end(more);                                                                                \
    }                                                                                              \
    return real(at, path, flags, mode);                                                            \
  }

OPENAT(openat)
OPENAT(openat64)
