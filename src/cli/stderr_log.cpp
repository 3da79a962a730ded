#include "cli/stderr_log.hpp"

#include "cli/versions.hpp"
#include "core/redact.hpp"
#include "os/retry.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>

namespace oncerun::cli {

namespace {

spdlog::level::level_enum spdlog_level(run::Level level) noexcept {
  switch (level) {
  case run::Level::skip:
    return spdlog::level::debug;
  case run::Level::note:
    return spdlog::level::info;
  case run::Level::warning:
    return spdlog::level::warn;
  case run::Level::error:
    return spdlog::level::err;
  }
  return spdlog::level::err;
}

/// sd-daemon(3): SD_DEBUG 7, SD_INFO 6, SD_WARNING 4, SD_ERR 3.
int journal_priority(run::Level level) noexcept {
  switch (level) {
  case run::Level::skip:
    return 7;
  case run::Level::note:
    return 6;
  case run::Level::warning:
    return 4;
  case run::Level::error:
    return 3;
  }
  return 3;
}

std::string_view level_word(run::Level level) noexcept {
  switch (level) {
  case run::Level::skip:
    return "skip";
  case run::Level::note:
    return "note";
  case run::Level::warning:
    return "warning";
  case run::Level::error:
    return "error";
  }
  return "error";
}

/// One line, whatever a job name or a file name holds.
std::string one_line(std::string_view text) {
  std::string line = core::redact(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      c = ' ';
    }
  }
  return line;
}

std::string render(LogFormat format, run::Level level, const std::string& text,
                   const std::string& hint) {
  switch (format) {
  case LogFormat::json: {
    nlohmann::ordered_json object;
    object["level"] = level_word(level);
    object["message"] = text;
    if (!hint.empty()) {
      object["hint"] = hint;
    }
    // A file name need not be UTF-8; what is not becomes U+FFFD rather than an exception.
    return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
  case LogFormat::journal:
    return fmt::format("<{}>{}{}{}", journal_priority(level), text,
                       hint.empty() ? "" : "; hint: ", hint);
  case LogFormat::text:
    break;
  }
  return fmt::format("oncerun: {}{}{}", text, hint.empty() ? "" : "\nhint: ", hint);
}

/// Writes a line whole. stdio would drop what a signal interrupted, and a reason why nothing was
/// started must not be lost; whoever does not read for a second does not want it.
class WholeLines final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    constexpr int k_patience_ms = 1000;
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string_view left(line.data(), line.size());
    while (!left.empty()) {
      const ssize_t size =
          os::retry([&] { return ::write(STDERR_FILENO, left.data(), left.size()); });
      if (size > 0) {
        left.remove_prefix(static_cast<std::size_t>(size));
        continue;
      }
      pollfd writable{STDERR_FILENO, POLLOUT, 0};
      if (size == 0 || errno != EAGAIN || ::poll(&writable, 1, k_patience_ms) <= 0) {
        return;
      }
    }
  }
  void flush_() override {}
};

} // namespace

StderrLog::StderrLog(LogFormat format, bool verbose, bool quiet, bool terminal)
    : m_format(format), m_least(run::Level::note) {
  if (quiet) {
    m_least = run::Level::error;
  } else if (verbose || terminal) {
    m_least = run::Level::skip;
  }
}

void StderrLog::say(run::Level level, const std::string& text, const std::string& hint) {
  if (level < m_least) {
    return;
  }
  // Made when there is something to say: most starts say nothing. One write for all of it, so that
  // lines of several processes do not mix.
  static spdlog::logger logger = [] {
    spdlog::logger made("oncerun", std::make_shared<WholeLines>());
    made.set_pattern("%v");
    made.set_level(spdlog::level::trace);
    return made;
  }();
  logger.log(spdlog_level(level), "{}", render(m_format, level, one_line(text), one_line(hint)));
}

std::string spdlog_version() {
  return fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH);
}

} // namespace oncerun::cli
