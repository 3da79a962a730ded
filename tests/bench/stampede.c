/* Starts a command many times at the same moment and waits for all of them.
 *
 *     stampede COUNT COMMAND [ARG...]
 *
 * An argument "@n" becomes the number of the start. Prints the milliseconds from the moment of the
 * start until the last end. Every command must exit 0.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

/* Forked and ready before the signal is given, so that only the command itself is timed. */
static void become(char** argv, int number, int signal_fd) {
  char text[16];
  char byte;
  snprintf(text, sizeof text, "%d", number);
  for (char** word = argv; *word != NULL; ++word)
    if (strcmp(*word, "@n") == 0)
      *word = text;
  while (read(signal_fd, &byte, 1) < 0 && errno == EINTR) {
  }
  execvp(argv[0], argv);
  _exit(127);
}

int main(int argc, char** argv) {
  int signal_fds[2];
  if (argc < 3 || pipe(signal_fds) != 0)
    return 64;
  const int count = atoi(argv[1]);
  for (int i = 0; i < count; ++i) {
    const pid_t pid = fork();
    if (pid < 0)
      return 71;
    if (pid == 0) {
      close(signal_fds[1]);
      become(argv + 2, i, signal_fds[0]);
    }
  }
  const double begin = now_ms();
  close(signal_fds[1]);
  int failed = 0;
  int status = 0;
  for (int i = 0; i < count; ++i)
    if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
      ++failed;
  printf("%.1f\n", now_ms() - begin);
  if (failed != 0)
    fprintf(stderr, "stampede: %d of %d did not exit 0\n", failed, count);
  return failed != 0;
}
