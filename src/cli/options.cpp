#include "cli/options.hpp"

#include <array>

namespace oncerun::cli {

namespace {

constexpr std::string_view k_what = "What and when";
constexpr std::string_view k_where = "Lock and ledger";
constexpr std::string_view k_redis = "Lock on a Redis server";
constexpr std::string_view k_doubt = "Doubt";
constexpr std::string_view k_limits = "Limits and retries";
constexpr std::string_view k_telling = "Outcome and output";
constexpr std::string_view k_settling = "Settling";

constexpr unsigned k_on_a_run = k_run | k_show | k_resolve | k_check;
constexpr unsigned k_on_a_job = k_on_a_run | k_status | k_history | k_job_set;
constexpr unsigned k_on_a_ledger = k_on_a_job | k_ledger_accept;
constexpr unsigned k_asking = k_run | k_check;
constexpr unsigned k_looking = k_status | k_history | k_show;

constexpr std::array k_options{
    Option{"job", 'j', "NAME", k_what, k_on_a_job, "name of the job: 1 to 200 bytes of UTF-8", ""},
    Option{"date", 'd', "WHEN", k_what, k_on_a_run | k_history,
           "this, previous (for days also today, yesterday), each with -N periods, or a label such "
           "as 2026-10-26",
           "this"},
    Option{"every", 0, "PERIOD", k_what, k_on_a_run | k_job_set,
           "day, hour, week, month, a divisor of the day such as 15m or 6h, or key (any text)",
           "day"},
    Option{"tz", 0, "ZONE", k_what, k_on_a_run | k_job_set, "time zone in which the period is cut",
           "the system's"},
    Option{"scheduled-at", 0, "T", k_what, k_on_a_run,
           "count from this instant: RFC 3339, @SECONDS, or k8s:JOB-NAME", "now"},

    Option{
        "lock", 'l', "SPEC", k_where, k_run,
        "flock, flock:PATH, none, redis://[user:password@]host[:port][/db], redis+unix://path or "
        "redis+sentinel://h1:p,h2:p/NAME[/db]",
        "flock"},
    Option{"wait", 'w', "DURATION", k_where, k_run,
           "wait that long for the lock and for a run of the same date", "0"},
    Option{"replace", 0, "", k_where, k_run, "after --wait, stop the run that is in the way", ""},
    Option{"lock-scope", 0, "SCOPE", k_redis, k_run, "job or date: what the lock covers", "job"},
    Option{"lock-key", 0, "TEXT", k_redis, k_run, "name of the lock on the server",
           "oncerun:lock:JOB"},
    Option{"lock-ttl", 0, "DURATION", k_redis, k_run,
           "how long the lock outlives whoever stops renewing it", "30s"},
    Option{"lock-renew", 0, "on|off", k_redis, k_run,
           "renew it at a third of that, or stop the command at its end", "on"},
    Option{"lock-replicas", 0, "N|all", k_redis, k_run,
           "replicas that must have a change before it counts", "all"},
    Option{"lock-marks", 0, "DURATION", k_redis, k_run,
           "how long other hosts are told what became of a run; 0: not at all", "35d"},
    Option{"lock-unavailable", 0, "fail|run", k_redis, k_run,
           "what to do when the server cannot be reached", "fail"},
    Option{"lock-password-file", 0, "FILE", k_redis, k_run,
           "the server's password; also ONCERUN_REDIS_PASSWORD", ""},
    Option{"connect-timeout", 0, "DURATION", k_redis, k_run,
           "limit for connecting and for each answer", "3s"},
    Option{"on-lost", 0, "COMMAND", k_redis, k_run,
           "run by /bin/sh -c when the lock was lost and the command stopped", ""},

    Option{"ledger", 'L', "SPEC", k_where, k_on_a_ledger, "a path, sqlite:PATH, or none",
           "see oncerun(1)"},
    Option{"state", 's', "FILE", k_where, k_on_a_ledger, "JSON state file", ""},
    Option{"spool", 0, "DIR", k_where, k_run,
           "folder for results that the ledger cannot take, or none", "beside the ledger"},
    Option{"record-timeout", 0, "DURATION", k_where, k_run, "how long to try to record a result",
           "30s"},

    Option{"guarantee", 'g', "G", k_doubt, k_run,
           "what to do in doubt: cautious, at-least-once, at-most-once", "cautious"},
    Option{"check", 'c', "COMMAND", k_doubt, k_asking,
           "ask this shell command whether the effect happened", ""},
    Option{"check-timeout", 0, "DURATION", k_doubt, k_asking, "limit for one check", "60s"},
    Option{"check-absent", 0, "CODE", k_doubt, k_asking,
           "exit code of the check that means: did not happen", "10"},
    Option{"check-present", 0, "CODE", k_doubt, k_asking,
           "exit code of the check that means: happened", "0"},
    Option{"check-settle", 0, "DURATION", k_doubt, k_run,
           "ask again after this time before an absence is believed", "30s"},
    Option{"check-first", 0, "", k_doubt, k_run, "ask also before the first attempt", ""},
    Option{"check-after", 0, "", k_doubt, k_run, "ask also after exit 0", ""},
    Option{"unknown-exit", 0, "CODES", k_doubt, k_run,
           "exit codes by which the command says that it does not know", "80,81,82,84,124"},
    Option{"rerun", 0, "", k_doubt, k_run, "begin a new generation of a done or skipped run", ""},

    Option{"timeout", 't', "DURATION", k_limits, k_run,
           "stop the command after this time (TERM, then KILL)", "none"},
    Option{"kill-after", 'k', "DURATION", k_limits, k_run,
           "time between TERM and KILL of the whole tree", "10s"},
    Option{"retries", 0, "N", k_limits, k_run, "further attempts after a failure", "0"},
    Option{"retry-delay", 0, "DURATION", k_limits, k_run,
           "before the first retry; doubled each time, with jitter", "10s"},

    Option{"exit", 0, "NAME=CODE", k_telling, k_run, "exit with CODE for that outcome", "", true},
    Option{"report", 0, "FILE", k_telling, k_run, "write the outcome as one JSON object", ""},
    Option{"explain", 0, "", k_telling, k_run,
           "say what was found and what would be done; change nothing", ""},
    Option{"verbose", 'v', "", k_telling, k_run | k_still_mine, "say also what is usually not said",
           ""},
    Option{"quiet", 'q', "", k_telling, k_run, "say only why something went wrong", ""},
    Option{"log-format", 0, "FORMAT", k_telling, k_run, "text, json or journal", "text"},
    Option{"json", 0, "", k_telling, k_looking | k_resolve | k_check | k_run,
           "for programs (with --explain when running)", ""},
    Option{"limit", 'n', "N", k_telling, k_history, "at most N lines, 0 for all", "50"},

    Option{"done", 0, "", k_settling, k_resolve, "it happened: never run it again", ""},
    Option{"ready", 0, "", k_settling, k_resolve, "it did not happen: start it, without asking",
           ""},
    Option{"skip", 0, "", k_settling, k_resolve, "it shall not run", ""},
    Option{"force", 0, "", k_settling, k_resolve,
           "end an orphaned tree, or accept what cannot be proven", ""},
    Option{"reason", 0, "TEXT", k_settling, k_resolve, "why, for the history", ""},

    Option{"help", 'h', "", k_telling, k_everywhere, "show this help", ""},
    Option{"version", 'V', "", k_telling, k_everywhere, "show the versions", ""},
};

constexpr std::array k_subcommands{
    Subcommand{"status", k_status, "each job: last date, status, who runs it; unsettled first"},
    Subcommand{"history", k_history, "attempts, verdicts and decisions, newest first"},
    Subcommand{"show", k_show, "one run with all its attempts"},
    Subcommand{"resolve", k_resolve, "settle a run by hand: --done, --ready or --skip"},
    Subcommand{"check", k_check, "try a check by hand"},
    Subcommand{"still-mine", k_still_mine, "inside a run: exit 0 while this attempt owns it"},
    Subcommand{"job set", k_job_set, "change a job's period or zone"},
    Subcommand{"ledger accept", k_ledger_accept, "accept a ledger restored from a backup"},
};

} // namespace

std::span<const Option> options() noexcept {
  return k_options;
}

std::span<const Subcommand> subcommands() noexcept {
  return k_subcommands;
}

const Option* find_option(std::string_view name, unsigned contexts) noexcept {
  for (const Option& option : k_options) {
    if ((option.contexts & contexts) != 0 && option.name == name) {
      return &option;
    }
  }
  return nullptr;
}

const Option* find_option(char letter, unsigned contexts) noexcept {
  for (const Option& option : k_options) {
    if ((option.contexts & contexts) != 0 && option.letter == letter && letter != 0) {
      return &option;
    }
  }
  return nullptr;
}

} // namespace oncerun::cli
