#include "run/telling.hpp"

#include "os/process.hpp"

namespace oncerun::run {

namespace {

/// What to do about a hold that no check can end.
std::string hint_for_hold(const core::Decision& decision) {
  switch (decision.reason) {
  case core::Reason::below_floor:
    return "if it really has to run: oncerun resolve --ready";
  case core::Reason::owner_not_provable:
    return "if it is gone: oncerun resolve --force, then start again";
  case core::Reason::late_success_noted:
    return "look at what happened, then oncerun resolve; a --check would be asked";
  case core::Reason::evidence_unreadable:
    return "repair the file by hand, or move it away if it tells nothing";
  default:
    return "settle it with oncerun resolve, or give a --check that says whether it happened";
  }
}

/// Names the file that a reason speaks of.
std::string file_of(const Plan& plan, const core::Decision& decision) {
  const bool of_file = decision.reason == core::Reason::evidence_unreadable && plan.state_path;
  return of_file ? ": " + *plan.state_path : "";
}

} // namespace

std::string Telling::pids(const std::vector<pid_t>& of_tree) {
  std::string text;
  for (const pid_t pid : of_tree) {
    text += (text.empty() ? "" : ", ") + os::process_label(pid);
  }
  return text.empty() ? "its processes cannot be seen from here" : text;
}

void Telling::claimed(const core::Claimed& claimed, const std::string& ledger) const {
  if (m_plan.ledger_is_default && claimed.claim->run().first_of_job) {
    m_log.say(Level::note, "first run of job " + m_plan.key.job.text() + " in " + ledger +
                               " (the default ledger)");
  }
  if (claimed.unsettled && !claimed.unsettled->oldest.empty()) {
    std::string dates;
    for (const core::RunKey& run : claimed.unsettled->oldest) {
      dates += (dates.empty() ? "" : ", ") + run.date.label();
    }
    const bool more = claimed.unsettled->count > static_cast<int>(claimed.unsettled->oldest.size());
    m_log.say(Level::warning,
              m_plan.key.job.text() + ": older dates are not settled: " + dates +
                  (more ? ", …" : "") + " (" + std::to_string(claimed.unsettled->count) + ")",
              "oncerun status -j " + m_plan.key.job.text());
  }
}

Result Telling::left_alone(const core::Sighting& seen, const core::Decision& decision) const {
  Result result = result_of(core::Outcome::done, std::string(core::explain(decision.reason)));
  result.status = core::name_of(seen.run->status);
  m_log.say(Level::skip, core::title(m_plan.key) + " is left alone: " + result.reason);
  return result;
}

Result Telling::held(const core::Sighting& seen, const core::Decision& decision) const {
  Result result = result_of(core::Outcome::held, std::string(core::explain(decision.reason)));
  if (seen.run) {
    result.status = core::name_of(seen.run->status);
  }
  m_log.say(Level::error,
            core::title(m_plan.key) + " is held: " + result.reason + file_of(m_plan, decision),
            hint_for_hold(decision));
  return result;
}

Result Telling::busy(const core::Sighting& seen) const {
  const bool orphaned = seen.owner == core::OwnerLife::orphaned;
  std::string text = core::title(m_plan.key) + " is running";
  if (orphaned) {
    text += " though its oncerun is gone: " + pids(seen.pids);
  } else if (seen.run) {
    text += " since " + seen.run->started_at + " on " + seen.run->host + ", pid " +
            std::to_string(seen.run->pid);
  }
  m_log.say(orphaned ? Level::warning : Level::skip, text,
            orphaned ? "wait for it with --wait, stop it with --replace or oncerun resolve --force"
                     : "");
  Result result = result_of(core::Outcome::busy, text);
  result.status = seen.run ? core::name_of(seen.run->status) : "";
  return result;
}

Result Telling::blocked(const std::string& by) const {
  m_log.say(Level::warning, core::title(m_plan.key) + " was not started: " + by,
            "wait for it with --wait; the date stays open for a later start");
  return result_of(core::Outcome::blocked, by);
}

} // namespace oncerun::run
