#pragma once

#include "core/ledger.hpp"
#include "run/log.hpp"
#include "run/plan.hpp"
#include "run/result.hpp"

#include <string>
#include <vector>

namespace oncerun::run {

/// Says why nothing was started, or what else a person should know, and makes the result of it.
class Telling {
 public:
  /// Nothing is owned.
  Telling(const Plan& plan, Log& log) : m_plan(plan), m_log(log) {}

  /// Done or skipped. Said only on a terminal: cron mails every line.
  [[nodiscard]] Result left_alone(const core::Sighting& seen, const core::Decision& decision) const;
  [[nodiscard]] Result held(const core::Sighting& seen, const core::Decision& decision) const;
  /// Somebody runs this date. Said aloud when its oncerun is gone.
  [[nodiscard]] Result busy(const core::Sighting& seen) const;
  /// Nobody runs this date; `by` says what keeps it from being started.
  [[nodiscard]] Result blocked(const std::string& by) const;
  /// What the claim brought to light: a ledger nobody named, older dates that are not settled.
  void claimed(const core::Claimed& claimed, const std::string& ledger) const;

  /// "settle.py (pid 12), sleep (pid 13)".
  [[nodiscard]] static std::string pids(const std::vector<pid_t>& of_tree);

 private:
  const Plan& m_plan;
  Log& m_log;
};

} // namespace oncerun::run
