#include "run/evidence.hpp"

#include "core/error.hpp"
#include "os/clock.hpp"
#include "state/state_file.hpp"

namespace oncerun::run {

bool is_plausible_date(const Plan& plan, const core::BizDate& date) {
  if (plan.period.is_key() || plan.zone == nullptr) {
    return true;
  }
  try {
    const core::Slot slot = core::slot_labelled(plan.period, *plan.zone, date.label());
    return slot.start <= os::now();
  } catch (const core::UsageError&) {
    return false;
  }
}

void take_evidence(const Plan& plan, bool job_is_known, core::ClaimRequest& request) {
  if (!plan.state_path || plan.state_is_truth || job_is_known) {
    return;
  }
  const state::Reading reading = state::read_state(
      *plan.state_path, plan.key.job.text(), plan.period.text(),
      [&plan](const core::BizDate& date) { return is_plausible_date(plan, date); });
  if (const auto* document = std::get_if<core::StateDocument>(&reading)) {
    request.evidence = *document;
  }
  request.evidence_unreadable = std::holds_alternative<state::Unreadable>(reading);
}

} // namespace oncerun::run
