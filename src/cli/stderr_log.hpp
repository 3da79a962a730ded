#pragma once

#include "run/log.hpp"

#include <string>
#include <string_view>

namespace oncerun::cli {

enum class LogFormat { text, json, journal };

/// The lines of an invocation on stderr.
///   text: "oncerun: settle 2026-10-26 is held: …" and "hint: …"
///   json: one object a line with level, message, hint
///   journal: the text with sd-daemon(3)'s level prefix, hint included in the line
class StderrLog final : public run::Log {
 public:
  StderrLog(LogFormat format, bool verbose, bool quiet, bool terminal);
  using run::Log::say;
  void say(run::Level level, const std::string& text, const std::string& hint) override;

 private:
  LogFormat m_format;
  run::Level m_least;
};

} // namespace oncerun::cli
