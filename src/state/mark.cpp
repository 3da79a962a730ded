#include "state/mark.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <utility>

namespace oncerun::state {

namespace {

using Document = core::StateDocument;
using Status = core::StateDocument::Status;

core::RunRecord blank_run(const core::RunKey& key) {
  return {
      key, core::RunStatus::unknown, false, false, 1, 0, 0, "", {}, "", 0, "", "", "", {}, {}, true,
      ""};
}

core::AttemptRecord blank_attempt(const core::RunKey& key) {
  return {key, 0, 0, 1, "", {}, "", "", {}, "", "", "", false, {}, {}, "", {}};
}

/// The date to which the fields of the attempt belong.
std::optional<core::BizDate> date_of_attempt(const Document& document) {
  return document.pending_date ? document.pending_date : settled_up_to(document);
}

bool has_attempt_of(const Document& document, const core::BizDate& date) {
  return !document.run_id.empty() && date_of_attempt(document) == date;
}

core::RunStatus mark_status(const Document& document) {
  if (document.ready) {
    return core::RunStatus::ready;
  }
  switch (document.status) {
  case Status::pending:
    return core::RunStatus::pending;
  case Status::failed:
    return core::RunStatus::failed;
  case Status::none:
  case Status::done:
  case Status::unknown:
    break;
  }
  return core::RunStatus::unknown; // a mark that does not say is a doubt
}

void forget_attempt(Document& document) {
  document.run_id.clear();
  document.attempts = 0;
  document.generation = 1;
  document.never_started = false;
  document.ready = false;
  document.end_recorded = true;
  document.host.clear();
  document.machine_id.clear();
  document.boot_id.clear();
  document.life_id.clear();
  document.pid_namespace = 0;
  document.pid = 0;
  document.started_at.clear();
  document.exit_code.reset();
  document.signal.reset();
  document.note.clear();
}

/// Puts the mark on `date`; the attempt's fields stay only if they are of that date.
void move_mark(Document& document, const core::BizDate& date) {
  if (date_of_attempt(document) != date) {
    forget_attempt(document);
  }
  document.pending_date = date;
}

/// Takes the mark away after its date was settled as done or skipped.
void clear_mark(Document& document) {
  const std::optional<core::BizDate> date = date_of_attempt(document);
  document.pending_date.reset();
  document.ready = false;
  if (settled_up_to(document) != date) {
    forget_attempt(document);
  }
}

void settle_date(Document& document, const core::BizDate& date, std::optional<core::BizDate>& as) {
  const std::optional<core::BizDate> attempt = date_of_attempt(document);
  if (!as || *as < date) {
    as = date;
  }
  if (document.skipped_date && document.last_published &&
      *document.skipped_date <= *document.last_published) {
    document.skipped_date.reset();
  }
  if (document.pending_date == date) {
    clear_mark(document);
  } else if (date_of_attempt(document) != attempt) {
    forget_attempt(document);
  }
  if (!document.pending_date) {
    document.status = document.last_published ? Status::done : Status::none;
  }
}

} // namespace

std::optional<core::BizDate> settled_up_to(const Document& document) {
  if (!document.last_published || !document.skipped_date) {
    return document.last_published ? document.last_published : document.skipped_date;
  }
  return std::max(*document.last_published, *document.skipped_date);
}

std::optional<core::RunRecord> run_of(const Document& document, const core::RunKey& key) {
  core::RunRecord run = blank_run(key);
  if (document.pending_date == key.date) {
    run.status = mark_status(document);
  } else if (document.last_published == key.date) {
    run.status = core::RunStatus::done;
  } else if (document.skipped_date == key.date) {
    run.status = core::RunStatus::skipped;
  } else {
    return std::nullopt;
  }
  if (date_of_attempt(document) == key.date) {
    run.note = document.note;
    run.updated_at = document.updated_at;
  }
  if (!has_attempt_of(document, key.date)) {
    // Another script's mark: nobody recorded an end, and nobody of ours can be asked.
    run.end_recorded = run.status != core::RunStatus::pending;
    return run;
  }
  run.never_started = document.never_started;
  run.generation = document.generation;
  run.attempts = document.attempts;
  run.serial = document.serial;
  run.run_id = document.run_id;
  run.token = core::Token{document.token};
  run.host = document.host;
  run.pid = static_cast<pid_t>(document.pid);
  run.started_at = document.started_at;
  run.finished_at = document.end_recorded ? document.updated_at : "";
  run.exit_code = document.exit_code;
  run.signal = document.signal;
  run.end_recorded = document.end_recorded;
  return run;
}

bool is_not_knowable(const Document& document, const core::BizDate& date) {
  const std::optional<core::BizDate> settled = settled_up_to(document);
  // With both dates the older one still is known for itself.
  const bool is_known = document.pending_date == date || document.last_published == date ||
                        document.skipped_date == date;
  return settled && date < *settled && !is_known;
}

std::optional<core::JobRecord> job_of(const Document& document, const core::JobName& job) {
  if (document.job.empty()) {
    return std::nullopt;
  }
  return core::JobRecord{.job = job,
                         .period = document.every,
                         .zone = document.zone,
                         .last_token = core::Token{document.token},
                         .floor = settled_up_to(document),
                         .created_at = ""};
}

core::OwnerIdentity owner_of(const Document& document) {
  return {.host = document.host,
          .machine_id = document.machine_id,
          .boot_id = document.boot_id,
          .life_id = document.life_id,
          .pid_namespace = document.pid_namespace,
          .pid = static_cast<pid_t>(document.pid)};
}

std::optional<core::AttemptRecord> attempt_of(const Document& document, const core::JobName& job) {
  const std::optional<core::BizDate> date = date_of_attempt(document);
  if (document.run_id.empty() || !date) {
    return std::nullopt;
  }
  const std::optional<core::RunRecord> run = run_of(document, {job, *date});
  core::AttemptRecord attempt = blank_attempt({job, *date});
  attempt.serial = document.serial;
  attempt.number = document.attempts;
  attempt.generation = document.generation;
  attempt.run_id = document.run_id;
  attempt.token = core::Token{document.token};
  attempt.owner = owner_of(document);
  attempt.claimed_at = document.started_at;
  attempt.ended_at = document.end_recorded ? document.updated_at : "";
  attempt.result = document.end_recorded ? std::string(core::name_of(run->status)) : "";
  attempt.never_started = document.never_started;
  attempt.exit_code = document.exit_code;
  attempt.signal = document.signal;
  attempt.note = document.note;
  return attempt;
}

Document with_claim(Document document, const core::ClaimRequest& request, core::Token token,
                    bool new_generation, const core::OwnerIdentity& owner, const std::string& now) {
  move_mark(document, request.key.date);
  document.status = Status::pending;
  document.job = request.key.job.text();
  document.every = request.period;
  document.zone = request.zone;
  document.run_id = request.run_id;
  document.token = token.value;
  document.serial = token.value; // as unique as a serial has to be, and it survives a lost file
  document.attempts += 1;
  document.generation += new_generation ? 1 : 0;
  document.never_started = false;
  document.ready = false;
  document.end_recorded = false;
  document.host = owner.host;
  document.machine_id = owner.machine_id;
  document.boot_id = owner.boot_id;
  document.life_id = owner.life_id;
  document.pid_namespace = owner.pid_namespace;
  document.pid = owner.pid;
  document.started_at = now;
  document.updated_at = now;
  document.exit_code.reset();
  document.signal.reset();
  document.note.clear();
  return document;
}

Document with_result(Document document, const core::BizDate& date,
                     const core::AttemptResult& result, const std::string& now) {
  document.end_recorded = true;
  document.never_started = result.never_started;
  document.exit_code = result.exit_code;
  document.signal = result.signal;
  document.note = result.note;
  document.updated_at = now;
  if (result.status == core::RunStatus::done) {
    settle_date(document, date, document.last_published);
  } else {
    document.status = result.status == core::RunStatus::failed ? Status::failed : Status::unknown;
  }
  return document;
}

Document with_settlement(Document document, const core::RunKey& key,
                         const core::Settlement& settlement, const std::string& now) {
  const bool is_marked = document.pending_date == key.date;
  const bool settles =
      settlement.to == core::RunStatus::done || settlement.to == core::RunStatus::skipped;
  if (!settles && document.pending_date && !is_marked) {
    throw core::Error(core::Outcome::held,
                      "the state file remembers one mark, and " + document.pending_date->label() +
                          " is not settled",
                      "settle that date first");
  }
  if (settles && is_not_knowable(document, key.date)) {
    throw core::Error(core::Outcome::config,
                      "a state file alone remembers nothing of dates before " +
                          settled_up_to(document)->label(),
                      "nothing older is ever started, unless it is made ready");
  }
  if (settlement.to == core::RunStatus::skipped && document.last_published == key.date) {
    throw core::Error(core::Outcome::config,
                      "a state file alone cannot take back that " + key.date.label() + " is done",
                      "no start runs it either way; settle an open run of it with --done");
  }
  if (document.job.empty()) {
    document.job = key.job.text();
  }
  if (document.every.empty()) {
    document.every = settlement.period;
    document.zone = settlement.zone;
  }
  if (is_marked) {
    document.end_recorded = true;
  }
  if (settlement.to == core::RunStatus::done) {
    settle_date(document, key.date, document.last_published);
  } else if (settlement.to == core::RunStatus::skipped) {
    settle_date(document, key.date, document.skipped_date);
  } else {
    const bool failed = is_marked && document.status == Status::failed;
    move_mark(document, key.date);
    document.end_recorded = true;
    document.ready = settlement.to == core::RunStatus::ready;
    const bool say_failed = document.ready ? failed : settlement.to == core::RunStatus::failed;
    document.status = say_failed ? Status::failed : Status::unknown;
    if (!settlement.run_id.empty()) { // somebody else's attempt: none of our bytes tell of it
      forget_attempt(document);
      document.run_id = settlement.run_id;
      document.token = std::max(document.token, settlement.token.value);
    }
  }
  document.updated_at = now;
  document.note = settlement.kind + " by " + settlement.by +
                  (settlement.detail.empty() ? "" : ": " + settlement.detail);
  return document;
}

} // namespace oncerun::state
