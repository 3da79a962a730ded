#pragma once

#include <string>

namespace oncerun::run {

enum class Level {
  skip,    ///< a done or busy date: printed only on a terminal or with -v (cron mails every line)
  note,    ///< something to know
  warning, ///< something to look at
  error,   ///< why nothing was started, or why the result is not what it seems
};

/// Where the pipeline says things; cli/ renders them as text, JSON or for the journal.
class Log {
 public:
  virtual ~Log() = default;
  /// `text` is one lowercase line; `hint` says what to do and may be empty.
  virtual void say(Level level, const std::string& text, const std::string& hint) = 0;
  void say(Level level, const std::string& text) { say(level, text, {}); }
};

} // namespace oncerun::run
