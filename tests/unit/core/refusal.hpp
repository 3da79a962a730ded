#pragma once

#include "core/error.hpp"
#include "support/catch.hpp"

#include <functional>
#include <string>

namespace oncerun::test {

/// What a call that must throw a UsageError says: its message and its hint.
struct Refusal {
  std::string message;
  std::string hint;

  [[nodiscard]] bool says(const std::string& part) const {
    return message.find(part) != std::string::npos;
  }
  [[nodiscard]] bool hints(const std::string& part) const {
    return hint.find(part) != std::string::npos;
  }
};

inline Refusal refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const core::UsageError& error) {
    CHECK(error.outcome() == core::Outcome::usage);
    return {error.what(), error.hint()};
  }
  FAIL("nothing was refused");
  return {};
}

} // namespace oncerun::test
