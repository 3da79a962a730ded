/* Preloaded into oncerun by the short-write suite: every other write is interrupted before it has
 * written anything, and every write of more than one byte writes only half. Both are what write(2)
 * allows, and neither may change anything. Says on a descriptor of the test's how often it did so. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static void tell(char what) {
  static int fd = -2;
  static ssize_t (*real)(int, const void*, size_t);
  if (fd == -2) {
    const char* number = getenv("SHORT_WRITES_FD");
    fd = number != NULL ? atoi(number) : -1;
    real = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  }
  if (fd >= 0) {
    const int saved = errno;
    (void)!real(fd, &what, 1);
    errno = saved;
  }
}

static int interrupted(void) {
  static unsigned count;
  if (++count % 2 == 0) {
    tell('i');
    errno = EINTR;
    return 1;
  }
  return 0;
}

static size_t part(size_t size) {
  if (size > 1) {
    tell('s');
    return size / 2;
  }
  return size;
}

ssize_t write(int fd, const void* data, size_t size) {
  static ssize_t (*real)(int, const void*, size_t);
  if (real == NULL) {
    real = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  }
  return interrupted() ? -1 : real(fd, data, part(size));
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t at) {
  static ssize_t (*real)(int, const void*, size_t, off64_t);
  if (real == NULL) {
    real = (ssize_t(*)(int, const void*, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
  }
  return interrupted() ? -1 : real(fd, data, part(size), at);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t at) {
  return pwrite64(fd, data, size, at);
}
