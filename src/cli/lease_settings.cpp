#include "cli/lease_settings.hpp"

#include "core/duration.hpp"
#include "core/error.hpp"
#include "os/file.hpp"

#include <array>
#include <charconv>

namespace oncerun::cli {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds k_shortest_ttl{1'000};
constexpr milliseconds k_longest_ttl = std::chrono::hours(24 * 7);
constexpr std::size_t k_longest_password = 4096;

constexpr std::array k_options{
    "lock-scope", "lock-key",         "lock-ttl",           "lock-renew",      "lock-replicas",
    "lock-marks", "lock-unavailable", "lock-password-file", "connect-timeout", "on-lost"};

/// Whether the option's value is `yes` rather than `no`; `otherwise` where it is not given.
bool choice(const Arguments& arguments, const char* option, std::string_view yes,
            std::string_view no, bool otherwise) {
  const std::optional<std::string> value = arguments.value(option);
  if (!value) {
    return otherwise;
  }
  if (*value != yes && *value != no) {
    throw core::UsageError("--" + std::string(option) + " is '" + *value + "'",
                           std::string(yes) + " or " + std::string(no));
  }
  return *value == yes;
}

milliseconds duration(const Arguments& arguments, const char* option, milliseconds otherwise) {
  const std::optional<std::string> value = arguments.value(option);
  return value ? core::parse_duration(*value, "--" + std::string(option)) : otherwise;
}

std::optional<int> replicas(const Arguments& arguments) {
  const std::string text = arguments.value("lock-replicas").value_or("all");
  if (text == "all") {
    return std::nullopt;
  }
  constexpr int k_most = 1000;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > k_most) {
    throw core::UsageError("--lock-replicas is '" + text + "'", "a number, or all");
  }
  return number;
}

/// The first line of the file.
std::string password_in(const std::string& path) {
  const std::optional<std::string> text = os::read_file(path, k_longest_password);
  if (!text) {
    throw core::UsageError("--lock-password-file: " + path + " does not exist",
                           "the password is its first line");
  }
  std::string password = text->substr(0, text->find('\n'));
  if (password.empty()) {
    throw core::UsageError("--lock-password-file: " + path + " begins with an empty line",
                           "the password is its first line");
  }
  return password;
}

} // namespace

LeaseSettings lease_settings(const Arguments& arguments) {
  LeaseSettings settings;
  settings.covers_job = choice(arguments, "lock-scope", "job", "date", settings.covers_job);
  settings.renew = choice(arguments, "lock-renew", "on", "off", settings.renew);
  settings.run_without = choice(arguments, "lock-unavailable", "run", "fail", settings.run_without);
  settings.ttl = duration(arguments, "lock-ttl", settings.ttl);
  settings.marks = duration(arguments, "lock-marks", settings.marks);
  settings.connect_timeout = duration(arguments, "connect-timeout", settings.connect_timeout);
  settings.replicas = replicas(arguments);
  settings.key = arguments.value("lock-key").value_or("");
  if (settings.ttl < k_shortest_ttl || settings.ttl > k_longest_ttl) {
    throw core::UsageError("--lock-ttl must be from 1 second to 7 days",
                           "it is renewed at a third of it while the command runs");
  }
  if (settings.connect_timeout == milliseconds::zero()) {
    throw core::UsageError("--connect-timeout is 0", "a server needs time to answer");
  }
  return settings;
}

void refuse_lease_options(const Arguments& arguments) {
  for (const char* option : k_options) {
    if (arguments.has(option)) {
      throw core::UsageError("--" + std::string(option) + " goes with a lock on a server",
                             "--lock redis://HOST");
    }
  }
}

void take_redis_password(const Arguments& arguments, const Environment& environment,
                         lock::RedisUrl& url) {
  const char* variable = environment.get("ONCERUN_REDIS_PASSWORD");
  if (const std::optional<std::string> file = arguments.value("lock-password-file")) {
    url.password = password_in(*file);
  } else if (url.password.empty() && variable != nullptr) {
    url.password = variable;
  }
  if (!url.user.empty() && url.password.empty()) {
    throw core::UsageError("the Redis URL of --lock names a user, and there is no password",
                           "ONCERUN_REDIS_PASSWORD or --lock-password-file");
  }
}

} // namespace oncerun::cli
