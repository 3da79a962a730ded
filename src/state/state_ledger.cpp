#include "state/state_ledger.hpp"

#include "core/error.hpp"
#include "os/clock.hpp"
#include "os/file.hpp"
#include "os/host.hpp"
#include "os/life_bytes.hpp"
#include "state/mark.hpp"
#include "state/state_claim.hpp"

#include <algorithm>
#include <utility>

namespace oncerun::state {

namespace {

/// How long a writer waits for another one; a run that goes on is not waited for here.
constexpr std::chrono::milliseconds k_patience{500};
constexpr std::int64_t k_ms_per_day = 86'400'000;

bool lives(core::OwnerLife owner) noexcept {
  return owner == core::OwnerLife::alive || owner == core::OwnerLife::orphaned;
}

bool is_same_attempt(const std::optional<core::RunRecord>& left,
                     const std::optional<core::RunRecord>& right) {
  if (!left || !right) {
    return !left && !right;
  }
  return left->run_id == right->run_id && left->token == right->token &&
         left->status == right->status;
}

void refuse_other_period(const core::StateDocument& document, const core::ClaimRequest& request,
                         const std::string& path) {
  const bool other_zone = !document.zone.empty() && document.zone != request.zone;
  if (!document.every.empty() && (document.every != request.period || other_zone)) {
    throw core::Error(core::Outcome::config,
                      path + " was begun with --every " + document.every + " --tz " +
                          document.zone + ", not --every " + request.period + " --tz " +
                          request.zone,
                      "name the same period and zone, or change them with: oncerun job set");
  }
}

/// A state file of before tokens that were given since: its marks and dates may be out of date.
void refuse_restored_copy(const core::StateDocument& document, const os::LifeFile& life,
                          const std::string& path) {
  if (document.token != 0 && document.token < life.highest_token()) {
    throw core::Error(core::Outcome::config, path + " is older than the last run: a restored copy",
                      "look what has been done since, then: oncerun ledger accept");
  }
}

} // namespace

StateLedger::StateLedger(std::shared_ptr<StatePlace> place) : m_place(std::move(place)) {
}

const core::OwnerIdentity& StateLedger::self() const {
  if (!m_self) {
    m_self = os::this_process();
  }
  return *m_self;
}

std::unique_ptr<core::Lock> StateLedger::state_lock() {
  return make_state_lock(m_place);
}

std::optional<core::StateDocument> StateLedger::read(const std::string& job,
                                                     const std::string& every) const {
  Reading reading = read_state(m_place->path, job, every.empty() ? m_place->every : every,
                               m_place->is_valid_date);
  if (std::holds_alternative<Absent>(reading)) {
    return std::nullopt;
  }
  if (const auto* broken = std::get_if<Unreadable>(&reading)) {
    throw core::Error(core::Outcome::held,
                      m_place->path + " cannot be read as a state file: " + broken->why,
                      "repair it by hand: {\"lastPublishedDate\": the newest date that is done}");
  }
  return std::get<core::StateDocument>(std::move(reading));
}

void StateLedger::write(const core::StateDocument& document) const {
  os::remove_stale_temporaries(m_place->path);
  os::AtomicFile(m_place->path, room_for(document)).commit(core::print_state(document));
}

core::Sighting StateLedger::look(const core::RunKey& run) {
  while (true) {
    const core::StateDocument document = read(run.job.text(), "").value_or(core::StateDocument{});
    core::Sighting sighting = sight(document, run);
    if (sighting.owner != core::OwnerLife::dead) {
      return sighting;
    }
    // The owner may have written its result and gone between the two looks.
    const core::StateDocument again = read(run.job.text(), "").value_or(core::StateDocument{});
    if (is_same_attempt(run_of(again, run), sighting.run)) {
      return sighting;
    }
  }
}

core::Sighting StateLedger::sight(const core::StateDocument& document,
                                  const core::RunKey& key) const {
  core::Sighting sighting;
  sighting.job = job_of(document, key.job);
  sighting.run = run_of(document, key);
  sighting.at_or_below_floor = is_not_knowable(document, key.date);
  if (sighting.run) {
    judge(document, sighting);
  }
  return sighting;
}

void StateLedger::judge(const core::StateDocument& document, core::Sighting& sighting) const {
  const core::RunRecord& run = *sighting.run;
  const bool settled =
      run.status == core::RunStatus::done || run.status == core::RunStatus::skipped;
  if (run.run_id.empty()) {
    // Another script's mark: it holds no bytes of ours, so there is nobody to be seen alive.
    sighting.owner = run.end_recorded ? core::OwnerLife::settled : core::OwnerLife::dead;
    return;
  }
  if (run.end_recorded && (settled || run.serial == m_place->own_serial)) {
    return;
  }
  const os::LifeFile life = os::LifeFile::look(m_place->lock_path);
  if (!run.end_recorded) {
    sighting.owner = life.judge(owner_of(document), run.serial, run.run_id, self(), sighting.pids);
  } else if (life.owner_byte_held(run.serial)) {
    sighting.owner = core::OwnerLife::alive; // between retries
  } else if (run.status == core::RunStatus::pending) {
    sighting.owner = core::OwnerLife::dead; // a script's mark again, over fields of ours
  }
}

std::optional<core::Sighting> StateLedger::pending_other(const core::RunKey& run) {
  const std::optional<core::StateDocument> document = read(run.job.text(), "");
  if (!document || !document->pending_date || *document->pending_date == run.date) {
    return std::nullopt;
  }
  const core::RunKey other{run.job, *document->pending_date};
  core::Sighting sighting = look(other);
  const bool still_marked = sighting.run && sighting.run->status != core::RunStatus::done &&
                            sighting.run->status != core::RunStatus::skipped;
  return still_marked ? std::optional(std::move(sighting)) : std::nullopt;
}

std::unique_ptr<core::HeldLock> StateLedger::serialise(const core::StopRequest& stop) const {
  if (m_place->locked) {
    return nullptr;
  }
  std::unique_ptr<core::HeldLock> lock = take_state_lock(m_place, k_patience, stop);
  if (!lock) {
    throw core::Error(core::Outcome::busy, m_place->lock_path + " is held: a run goes on",
                      "wait for its end, or end it: oncerun resolve --force");
  }
  return lock;
}

core::ClaimOutcome StateLedger::claim(const core::HeldLock& /*lock*/,
                                      const core::ClaimRequest& request,
                                      const core::Decider& decide, const core::StopRequest& stop) {
  if (!request.sortable_labels) {
    throw core::UsageError("a state file alone cannot remember runs of --every key",
                           "use a ledger for them");
  }
  std::unique_ptr<core::HeldLock> lock;
  if (!m_place->locked) {
    lock = take_state_lock(m_place, k_patience, stop);
    if (!lock) {
      core::Sighting sighting = look(request.key);
      const core::Decision decision = decide(sighting);
      if (lives(sighting.owner)) {
        return core::NotClaimed{std::move(sighting), decision};
      }
      std::optional<core::Sighting> other = pending_other(request.key);
      if (other && lives(other->owner)) {
        return core::OtherDateLives{*other->run, other->owner, other->pids};
      }
      throw core::Error(core::Outcome::unavailable, m_place->lock_path + " is held",
                        "start it again when the other run has ended, or give --wait");
    }
  }
  return claim_locked(request, decide, std::move(lock));
}

core::ClaimOutcome StateLedger::claim_locked(const core::ClaimRequest& request,
                                             const core::Decider& decide,
                                             std::unique_ptr<core::HeldLock> lock) {
  const core::StateDocument document =
      read(request.key.job.text(), "").value_or(core::StateDocument{});
  refuse_other_period(document, request, m_place->path);
  // Under the lock nobody of ours writes: what is seen now is what the claim is made over.
  core::Sighting sighting = sight(document, request.key);
  const core::Decision decision = decide(sighting);
  const bool new_generation = decision.action == core::Action::start_new_generation;
  if (decision.action != core::Action::start && !new_generation) {
    return core::NotClaimed{std::move(sighting), decision};
  }
  if (std::optional<core::OtherDateLives> other = refuse_other_mark(document, request.key)) {
    return std::move(*other);
  }
  os::remove_stale_temporaries(m_place->path);
  return core::Claimed{write_claim(document, request, sighting, new_generation, std::move(lock)),
                       std::nullopt};
}

std::optional<core::OtherDateLives>
StateLedger::refuse_other_mark(const core::StateDocument& document, const core::RunKey& key) const {
  if (!document.pending_date || *document.pending_date == key.date) {
    return std::nullopt;
  }
  const core::Sighting other = sight(document, {key.job, *document.pending_date});
  if (lives(other.owner)) {
    return core::OtherDateLives{*other.run, other.owner, other.pids};
  }
  throw core::Error(core::Outcome::held,
                    "the state file remembers one mark, and " + document.pending_date->label() +
                        " is " + std::string(core::name_of(other.run->status)),
                    "settle that date first: run it, give a check, or oncerun resolve");
}

std::unique_ptr<core::Claim> StateLedger::write_claim(const core::StateDocument& document,
                                                      const core::ClaimRequest& request,
                                                      const core::Sighting& sighting,
                                                      bool new_generation,
                                                      std::unique_ptr<core::HeldLock> lock) {
  os::LifeFile life = os::LifeFile::open(m_place->lock_path, m_place->path);
  refuse_restored_copy(document, life, m_place->path);
  const std::int64_t fresh = request.lock_token.value != 0
                                 ? request.lock_token.value
                                 : std::int64_t{os::now().time_since_epoch().count()};
  const core::Token token{std::max({document.token + 1, life.highest_token() + 1, fresh})};
  core::OwnerIdentity owner = self();
  owner.life_id = life.id();
  core::StateDocument next =
      with_claim(document, request, token, new_generation, owner, os::now_text());
  core::ClaimedRun run{.key = request.key,
                       .run_id = request.run_id,
                       .token = token,
                       .serial = next.serial,
                       .number = next.attempts,
                       .generation = next.generation,
                       .previous = std::string(core::previous_name(sighting.row())),
                       .ledger = describe(),
                       .first_of_job = document.job.empty()};
  // All that can fail for want of space comes before the claim is seen.
  os::AtomicFile reserved(m_place->path, room_for(next));
  os::AtomicFile pending(m_place->path, room_for(next));
  os::HeldLife bytes = os::HeldLife::take(life, next.serial);
  try {
    pending.commit(core::print_state(next));
    life.remember_token(token.value);
  } catch (const core::Error&) {
    give_back(next, run, reserved);
    throw;
  }
  return std::make_unique<StateClaim>(
      m_place, StateClaimParts{std::move(run), std::move(next), std::move(bytes),
                               std::move(reserved), std::move(lock)});
}

/// After a claim that failed: if its mark is visible nevertheless, though perhaps not durable, the
/// file has to say that nothing was started.
void StateLedger::give_back(const core::StateDocument& claimed, const core::ClaimedRun& run,
                            os::AtomicFile& reserved) const try {
  const std::optional<core::StateDocument> seen = read(run.key.job.text(), "");
  if (seen && seen->run_id == claimed.run_id) {
    const core::GivenBack back = core::given_back(run.previous);
    const core::AttemptResult never{.status = back.status,
                                    .never_started = back.never_started,
                                    .exit_code = std::nullopt,
                                    .signal = std::nullopt,
                                    .usage = {},
                                    .note = "the claim could not be made durable"};
    reserved.commit(core::print_state(with_result(claimed, run.key.date, never, os::now_text())));
  }
} catch (const core::Error&) {
  // Then the mark stays, which holds the date: what matters is the first error.
}

bool StateLedger::settle(const core::RunKey& run, const core::Sighting& seen,
                         const core::Settlement& settlement, const core::StopRequest& stop) {
  const std::unique_ptr<core::HeldLock> lock = serialise(stop);
  const std::optional<core::StateDocument> present = read(run.job.text(), settlement.period);
  const core::StateDocument document = present.value_or(core::StateDocument{});
  const core::Sighting now = sight(document, run);
  if (!is_same_attempt(now.run, seen.run) || lives(now.owner)) {
    return false;
  }
  if (!present && settlement.period.empty()) {
    throw core::Error(core::Outcome::config,
                      m_place->path + " does not exist: job " + run.job.text() + " is not known",
                      "run it once, or name --every and --tz");
  }
  write(with_settlement(document, run, settlement, os::now_text()));
  return true;
}

bool StateLedger::still_mine(const core::RunKey& run, const std::string& run_id,
                             core::Token token) {
  const std::optional<core::StateDocument> document = read(run.job.text(), "");
  if (!document) {
    // The attempt was claimed in a file: that it is gone says nothing about who owns the run.
    throw core::Error(core::Outcome::unavailable, "there is no state file at " + m_place->path,
                      "the one in which the run was claimed was removed");
  }
  return document->pending_date == run.date &&
         document->status == core::StateDocument::Status::pending && document->run_id == run_id &&
         document->token == token.value;
}

std::vector<core::JobRecord> StateLedger::jobs() {
  const std::optional<core::StateDocument> document = read("", "");
  if (!document || document->job.empty()) {
    return {};
  }
  return {*job_of(*document, core::JobName::parse(document->job))};
}

std::vector<core::Sighting> StateLedger::overview(const std::optional<core::JobName>& job) {
  const std::optional<core::StateDocument> document = read("", "");
  const bool other_job = document && job && !document->job.empty() && document->job != job->text();
  if (!document || other_job || (document->job.empty() && !job)) {
    return {};
  }
  const core::JobName name = job ? *job : core::JobName::parse(document->job);
  std::vector<core::Sighting> found;
  for (const std::optional<core::BizDate>& date :
       {document->pending_date, settled_up_to(*document)}) {
    if (date && (found.empty() || found.front().run->key.date != *date)) {
      core::Sighting sighting = look({name, *date});
      if (sighting.run) {
        found.push_back(std::move(sighting));
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& left, const auto& right) {
    return right.run->key.date < left.run->key.date;
  });
  return found;
}

std::vector<core::AttemptRecord> StateLedger::attempts(const core::Selection& selection) {
  const std::optional<core::StateDocument> document = read("", "");
  if (!document || document->job.empty() ||
      (selection.job && selection.job->text() != document->job)) {
    return {};
  }
  std::optional<core::AttemptRecord> attempt =
      attempt_of(*document, core::JobName::parse(document->job));
  if (!attempt || (selection.date && attempt->key.date != *selection.date)) {
    return {};
  }
  return {std::move(*attempt)};
}

void StateLedger::set_job(const core::JobName& job, const std::string& period,
                          const std::string& zone, const std::string& /*by*/,
                          const core::StopRequest& stop) {
  const std::unique_ptr<core::HeldLock> lock = serialise(stop);
  std::optional<core::StateDocument> document = read(job.text(), "");
  if (!document) {
    throw core::Error(core::Outcome::config,
                      m_place->path + " does not exist: job " + job.text() + " is not known",
                      "name it with --state; the first start of the job makes it");
  }
  if (document->status == core::StateDocument::Status::pending) {
    throw core::Error(core::Outcome::config,
                      "job " + job.text() +
                          " has a run that is open: " + document->pending_date->label(),
                      "wait for its end or settle it first");
  }
  const bool has_dates = document->pending_date || settled_up_to(*document);
  if (!period.empty() && period != document->every && has_dates) {
    throw core::Error(
        core::Outcome::config,
        m_place->path + " has dates of --every " + document->every +
            ", which tell nothing about --every " + period,
        "begin a new state file, with the newest date that is done in the new period");
  }
  document->job = job.text();
  if (!period.empty()) {
    document->every = period;
  }
  if (!zone.empty()) {
    document->zone = zone;
  }
  document->updated_at = os::now_text();
  write(*document);
}

void StateLedger::accept(const std::string& by, const core::StopRequest& stop) {
  const std::unique_ptr<core::HeldLock> lock = serialise(stop);
  std::optional<core::StateDocument> document = read("", "");
  if (!document) {
    throw core::Error(core::Outcome::config, m_place->path + " does not exist",
                      "name it with --state; the first start of a job makes it");
  }
  os::LifeFile life = os::LifeFile::open(m_place->lock_path, m_place->path);
  // The id first: if this is cut short here, the file still is refused.
  life.renew_id();
  document->token = std::max({document->token, life.highest_token(),
                              std::int64_t{os::now().time_since_epoch().count()}}) +
                    k_ms_per_day;
  document->updated_at = os::now_text();
  document->note = "accepted by " + by;
  write(*document);
  life.remember_token(document->token);
}

std::unique_ptr<StateLedger> open_state_ledger(const std::string& path, IsValidDate is_valid_date,
                                               std::string every) {
  os::refuse_planted_link(path);
  auto place = std::make_shared<StatePlace>();
  place->path = os::real_path(path);
  place->lock_path = place->path + ".lock";
  place->is_valid_date = std::move(is_valid_date);
  place->every = std::move(every);
  os::refuse_network_file_system(place->path);
  return std::make_unique<StateLedger>(std::move(place));
}

} // namespace oncerun::state
