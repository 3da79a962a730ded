#pragma once

#include "core/decide.hpp"
#include "core/names.hpp"

#include <string>

namespace oncerun::core {

/// What is remembered beside a lock that many hosts share, about one run: the little that a host
/// needs whose own ledger knows nothing of it.
struct RunMark {
  RunStatus status = RunStatus::unknown; ///< pending, done, failed or unknown
  std::string run_id;                    ///< of the attempt
  Token token;                           ///< 0: not known
  std::string host;
  std::string at; ///< UTC, ISO 8601
  friend bool operator==(const RunMark&, const RunMark&) = default;
};

} // namespace oncerun::core
