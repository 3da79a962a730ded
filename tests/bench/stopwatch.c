/* Times commands as whole processes, in turns: what disturbs the machine then disturbs them all.
 *
 *     stopwatch ROUNDS [--start N] -- COMMAND [ARG...] [-- COMMAND [ARG...]]...
 *
 * An argument "@date" becomes the date of a day that no other round has, counted from --start; a
 * command that begins with "@untimed" is run in its turn and not measured. Prints a line a round:
 * the microseconds from before the spawn until the end of each command. Every command must exit 0.
 * A command's stdout is /dev/null, its stderr the caller's. Only this program's own cost (a
 * posix_spawn(3), which starts by vfork, and a waitpid(2)) is in every figure.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char** environ;

enum { k_commands = 8, k_arguments = 64 };

static posix_spawn_file_actions_t g_actions;
static char* g_command[k_commands][k_arguments];
static int g_untimed[k_commands];

static void fail(const char* what, const char* which, int error) {
  fprintf(stderr, "stopwatch: %s: %s%s%s\n", which, what, error ? ": " : "",
          error ? strerror(error) : "");
  exit(1);
}

static double now_us(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

static double run(char* const argv[]) {
  pid_t pid = 0;
  int status = 0;
  const double begin = now_us();
  const int error = posix_spawnp(&pid, argv[0], &g_actions, NULL, argv, environ);
  if (error != 0)
    fail("cannot be started", argv[0], error);
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR)
      fail("waitpid", argv[0], errno);
  const double end = now_us();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail("did not exit 0", argv[0], 0);
  return end - begin;
}

/* The day with this number after 1990-01-01, as YYYY-MM-DD. */
static void date_of(long day, char* text, size_t size) {
  const time_t at = 631152000 + (time_t)day * 86400;
  struct tm utc;
  gmtime_r(&at, &utc);
  strftime(text, size, "%Y-%m-%d", &utc);
}

static int read_commands(char** word) {
  int commands = 0;
  while (*word != NULL) {
    if (strcmp(*word, "--") != 0 || commands == k_commands)
      fail("a command begins with --, and there are few", *word, 0);
    int arguments = 0;
    for (++word; *word != NULL && strcmp(*word, "--") != 0; ++word) {
      if (arguments == 0 && strcmp(*word, "@untimed") == 0) {
        g_untimed[commands] = 1;
        continue;
      }
      /* "---" stands for the "--" that belongs to a command. */
      g_command[commands][arguments++] = strcmp(*word, "---") == 0 ? *word + 1 : *word;
      if (arguments == k_arguments)
        fail("too many arguments", *word, 0);
    }
    if (arguments == 0)
      fail("an empty command", "--", 0);
    ++commands;
  }
  return commands;
}

int main(int argc, char** argv) {
  if (argc < 4)
    fail("usage: stopwatch ROUNDS [--start N] -- COMMAND...", argv[0], 0);
  const long rounds = strtol(argv[1], NULL, 10);
  char** word = argv + 2;
  long day = 0;
  if (strcmp(*word, "--start") == 0) {
    day = strtol(word[1], NULL, 10);
    word += 2;
  }
  const int commands = read_commands(word);
  if (posix_spawn_file_actions_init(&g_actions) != 0 ||
      posix_spawn_file_actions_addopen(&g_actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) != 0)
    fail("cannot be given to a command", "/dev/null", errno);
  for (long round = 0; round < rounds; ++round, ++day) {
    char date[32];
    date_of(day, date, sizeof date);
    for (int turn = 0; turn < commands; ++turn) {
      /* Who comes first changes, so that nobody always follows the same neighbour. */
      const int which = (int)((turn + round) % commands);
      char* line[k_arguments];
      for (int i = 0; i < k_arguments; ++i) {
        char* given = g_command[which][i];
        line[i] = given != NULL && strcmp(given, "@date") == 0 ? date : given;
        if (given == NULL)
          break;
      }
      const double took = run(line);
      if (!g_untimed[which])
        printf("%d %.1f\n", which, took);
    }
  }
  return 0;
}
