#include "run/publisher.hpp"

#include "core/error.hpp"
#include "run/evidence.hpp"
#include "run/patient_stop.hpp"
#include "state/state_file.hpp"

namespace oncerun::run {

Publisher::Publisher(const Plan& plan, core::Ledger& ledger, const core::StopRequest& stop,
                     Log& log)
    : m_plan(plan), m_ledger(ledger), m_stop(stop), m_log(log) {
  if (plan.state_path && !plan.state_is_truth) {
    m_projection = std::make_unique<state::Projection>(
        *plan.state_path, plan.key.job.text(), plan.period.text(),
        [&plan](const core::BizDate& date) { return is_plausible_date(plan, date); });
  }
}

Publisher::~Publisher() = default;

void Publisher::check_writable() {
  if (m_projection) {
    m_projection->reserve();
  }
}

void Publisher::write(const core::StopRequest& stop) {
  m_ledger.project(
      m_plan.key.job,
      [this](const core::StateDocument& document) {
        if (const std::optional<std::string> kept = m_projection->write(document)) {
          m_log.say(Level::warning,
                    "the state file " + *m_plan.state_path + " could not be read as one",
                    "it is kept as " + *kept + "; the ledger wrote a new one");
        }
      },
      stop);
}

void Publisher::before_start() {
  if (m_projection) {
    // Always: who was killed as it wrote a result leaves a run that is done, so nothing tells of
    // it.
    m_projection->remove_leftovers();
    write(m_stop);
    m_projection->reserve();
  }
}

void Publisher::after_result() noexcept {
  if (!m_projection) {
    return;
  }
  try {
    try {
      write(PatientStop(m_stop));
    } catch (const core::Error& error) {
      m_log.say(Level::warning,
                "the state file was not brought up to date: " + std::string(error.what()),
                "the ledger has the result; the next start writes the file");
    } catch (const core::Interrupted&) {
      m_log.say(Level::warning, "the state file was not brought up to date: stopped by a signal",
                "the ledger has the result; the next start writes the file");
    }
  } catch (...) {
    // Not even the line could be written. The result is in the ledger: nothing else matters here.
  }
}

bool Publisher::is_stale(const core::StateDocument& document, const core::Sighting& seen) const {
  using Status = core::StateDocument::Status;
  const core::BizDate& date = m_plan.key.date;
  const bool pending = document.pending_date == date;
  switch (seen.row()) {
  case core::RowState::done:
    return pending || !document.last_published || *document.last_published < date;
  case core::RowState::skipped:
    return pending;
  case core::RowState::failed:
  case core::RowState::never_started:
    return pending && document.status != Status::failed;
  case core::RowState::unknown:
  case core::RowState::late_success:
    return pending && document.status != Status::unknown;
  case core::RowState::none:
  case core::RowState::ready:
  case core::RowState::pending: // nothing is recorded that the file could be behind of
    break;
  }
  return false;
}

void Publisher::repair(const core::Sighting& seen) noexcept {
  if (!m_projection || !seen.run) {
    return;
  }
  bool stale = seen.row() == core::RowState::done;
  try {
    const state::Reading reading = state::read_state(
        *m_plan.state_path, m_plan.key.job.text(), m_plan.period.text(),
        [this](const core::BizDate& date) { return is_plausible_date(m_plan, date); });
    if (const auto* document = std::get_if<core::StateDocument>(&reading)) {
      stale = is_stale(*document, seen);
    }
  } catch (const core::Error&) {
    stale = true; // writing it says what is wrong
  }
  if (stale) {
    m_projection->remove_leftovers();
    after_result();
  }
}

} // namespace oncerun::run
