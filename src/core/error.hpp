#pragma once

#include "core/outcome.hpp"

#include <stdexcept>
#include <string>
#include <string_view>

namespace oncerun::core {

/// A broken environment or a wrong request. Expected outcomes (lock busy, claim lost, the child's
/// exit) are values, not errors. The message is one lowercase line that says what happened to which
/// file or server; the hint says what to do and may be empty. Only cli/ turns it into an exit code.
class Error : public std::runtime_error {
 public:
  Error(Outcome outcome, const std::string& message, std::string hint = {})
      : std::runtime_error(message), m_outcome(outcome), m_hint(std::move(hint)) {}

  [[nodiscard]] Outcome outcome() const noexcept { return m_outcome; }
  [[nodiscard]] const std::string& hint() const noexcept { return m_hint; }

 private:
  Outcome m_outcome;
  std::string m_hint;
};

/// Wrong by the command line alone (exit 64).
class UsageError : public Error {
 public:
  explicit UsageError(const std::string& message, std::string hint = {})
      : Error(Outcome::usage, message, std::move(hint)) {}
};

/// A wait was given up because a signal asked oncerun to stop. Carries the signal's number, so that
/// the exit code is 128 + N.
class Interrupted : public std::exception {
 public:
  explicit Interrupted(int signal) noexcept : m_signal(signal) {}
  [[nodiscard]] int signal() const noexcept { return m_signal; }
  [[nodiscard]] const char* what() const noexcept override { return "stopped by a signal"; }

 private:
  int m_signal;
};

/// "cannot WHAT PATH: strerror(ERROR)", the form of every message about a system call.
[[nodiscard]] Error system_error(Outcome outcome, std::string_view what, std::string_view path,
                                 int error, std::string hint = {});

} // namespace oncerun::core
