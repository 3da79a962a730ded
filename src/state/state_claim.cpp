#include "state/state_claim.hpp"

#include "core/error.hpp"
#include "os/clock.hpp"
#include "state/mark.hpp"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace oncerun::state {

namespace {

constexpr std::chrono::milliseconds k_retry_step{100};

} // namespace

StateClaim::StateClaim(std::shared_ptr<StatePlace> place, StateClaimParts parts)
    : m_place(std::move(place)), m_parts(std::move(parts)) {
  m_place->own_serial = m_parts.run.serial;
}

StateClaim::~StateClaim() {
  // Between retries the next claim is made before this one goes.
  if (m_place->own_serial == m_parts.run.serial) {
    m_place->own_serial = -1;
  }
}

core::Recorded StateClaim::finish(const core::AttemptResult& result,
                                  std::chrono::milliseconds timeout,
                                  const core::StopRequest& stop) {
  const os::Deadline deadline = os::Deadline::after(timeout);
  while (true) {
    try {
      return record(result);
    } catch (const core::Error& error) {
      const bool may_pass = error.outcome() == core::Outcome::unwritable ||
                            error.outcome() == core::Outcome::unavailable;
      if (!may_pass || deadline.passed()) {
        throw;
      }
    }
    if (const int signal = stop.pending(); signal != 0) {
      throw core::Interrupted(signal);
    }
    (void)::poll(nullptr, 0, static_cast<int>(std::min(k_retry_step, deadline.left()).count()));
  }
}

core::Recorded StateClaim::record(const core::AttemptResult& result) {
  core::Recorded why_not = core::Recorded::lost;
  const std::optional<core::StateDocument> document = current(why_not);
  if (!document) {
    return why_not;
  }
  core::AttemptResult standing = result;
  if (result.never_started) {
    const core::GivenBack back = core::given_back(m_parts.run.previous);
    standing.status = back.status;
    standing.never_started = back.never_started;
  }
  const std::string text =
      core::print_state(with_result(*document, m_parts.run.key.date, standing, os::now_text()));
  if (std::exchange(m_tried, true)) {
    // What was reserved is used up.
    os::AtomicFile(m_place->path, text.size()).commit(text);
  } else {
    os::AtomicFile reserved = std::move(m_parts.reserved);
    reserved.commit(text);
  }
  return core::Recorded::recorded;
}

std::optional<core::StateDocument> StateClaim::current(core::Recorded& why_not) const {
  const core::RunKey& key = m_parts.run.key;
  const Reading reading =
      read_state(m_place->path, key.job.text(), m_parts.document.every, m_place->is_valid_date);
  if (std::holds_alternative<Absent>(reading)) {
    return m_parts.document;
  }
  if (const auto* broken = std::get_if<Unreadable>(&reading)) {
    throw core::Error(core::Outcome::held,
                      m_place->path + " was broken while the command ran: " + broken->why,
                      "repair it by hand; the result of " + key.date.label() + " is not in it");
  }
  const auto& document = std::get<core::StateDocument>(reading);
  const bool ours = document.run_id == m_parts.run.run_id;
  const bool of_another = !document.run_id.empty() && !ours;
  const std::optional<core::RunRecord> run = run_of(document, key);
  if (ours && m_tried) {
    return m_parts.document; // an earlier try may have come as far as the rename
  }
  if (run && run->status == core::RunStatus::done && !of_another) {
    why_not = core::Recorded::marked_by_command;
    return std::nullopt;
  }
  const bool is_marked = document.pending_date == key.date;
  if (of_another || !is_marked || (ours && document.end_recorded)) {
    why_not = core::Recorded::lost;
    return std::nullopt;
  }
  if (ours) {
    return document;
  }
  // A script's own mark on this date, without our fields.
  core::StateDocument merged = m_parts.document;
  merged.unknown_keys = document.unknown_keys;
  if (document.last_published && merged.last_published < document.last_published) {
    merged.last_published = document.last_published;
  }
  return merged;
}

std::string StateClaim::spool(const core::AttemptResult& /*result*/) {
  throw core::Error(core::Outcome::unwritable, "a state file alone has no spool");
}

} // namespace oncerun::state
