#include "run/pipeline.hpp"

#include "core/error.hpp"
#include "os/host.hpp"
#include "run/evidence.hpp"
#include "run/lock_holder.hpp"
#include "run/replace.hpp"
#include "run/shared_marks.hpp"

#include <algorithm>
#include <utility>

namespace oncerun::run {

namespace {

constexpr std::chrono::milliseconds k_poll{100};
/// Hundreds of starts at once queue for the ledger on a busy host: none of them is to be refused.
constexpr std::chrono::milliseconds k_claim_wait{60'000};

bool lives(const core::Sighting& seen) noexcept {
  return seen.owner == core::OwnerLife::alive || seen.owner == core::OwnerLife::orphaned;
}

void leave_mark(core::HeldLock& lock, const std::optional<core::RunMark>& mark) {
  if (mark) {
    lock.leave_mark(*mark);
  }
}

/// Whether what stands there is still the attempt that was seen.
bool same_attempt(const core::Sighting& seen, const core::Sighting& now) noexcept {
  if (!seen.run || !now.run) {
    return !seen.run && !now.run;
  }
  return seen.run->run_id == now.run->run_id && seen.run->token == now.run->token &&
         seen.run->status == now.run->status;
}

} // namespace

Pipeline::Pipeline(const Plan& plan, core::Ledger& ledger, core::Lock& lock, os::Signals& signals,
                   Log& log)
    : m_plan(plan), m_ledger(ledger), m_lock(lock), m_signals(signals), m_log(log),
      m_publisher(plan, ledger, signals, log), m_telling(plan, log),
      m_deadline(os::Deadline::after(plan.wait)) {
}

core::Situation Pipeline::situation(const core::Sighting& seen) const {
  core::Situation s;
  s.row = seen.row();
  s.owner = seen.owner;
  s.at_or_below_floor = seen.at_or_below_floor;
  s.guarantee = m_plan.guarantee;
  s.has_check = m_plan.check.has_value();
  s.check_first = m_plan.check && m_plan.check->first;
  s.rerun = m_plan.rerun;
  return s;
}

Result Pipeline::execute() {
  try {
    if (std::optional<Result> result = run_at_once()) {
      return *result;
    }
    if (std::optional<Result> result = peek()) {
      return *result;
    }
    if (std::optional<Result> result = settle_other_date()) {
      return *result;
    }
    return acquire_and_run();
  } catch (const core::Interrupted& stop) {
    Result result = stopped_by(stop.signal());
    m_log.say(Level::error,
              core::title(m_plan.key) + ": " + result.reason + "; nothing was started");
    return result;
  }
}

Explanation Pipeline::explain() {
  Explanation explanation;
  explanation.seen = m_ledger.look(m_plan.key);
  explanation.decision = core::decide(situation(explanation.seen));
  explanation.other = m_ledger.pending_other(m_plan.key);
  explanation.lock_held = m_lock.is_held();
  if (explanation.lock_held) {
    explanation.lock_holder = m_lock.holder();
  }
  return explanation;
}

/// A date that the ledger has most likely never seen: its claim is tried without a look before,
/// unless the lock is held. Whatever then stands there is decided about in the claim, as ever.
std::optional<Result> Pipeline::run_at_once() {
  if (m_plan.state_path || m_ledger.may_know(m_plan.key)) {
    return std::nullopt;
  }
  std::unique_ptr<core::HeldLock> lock;
  try {
    lock = m_lock.acquire(m_plan.key, std::chrono::milliseconds::zero(), m_signals);
  } catch (const core::Error& error) {
    if (error.outcome() != core::Outcome::unavailable || m_deadline.passed()) {
      throw;
    } // else a server may come back within --wait
  }
  return lock ? run_under(std::move(lock)).result : std::nullopt;
}

/// The skip: a date that is done, or that somebody runs and nobody waits for, takes no lock and
/// changes no file. Everything else has to be looked at again under the lock.
std::optional<Result> Pipeline::peek() {
  const core::Sighting seen = m_ledger.look(m_plan.key);
  m_publisher.ledger_knows_job(seen.job.has_value());
  const core::Decision decision = core::decide(situation(seen));
  if (decision.action == core::Action::leave) {
    m_publisher.repair(seen);
    return m_telling.left_alone(seen, decision);
  }
  const bool stays = m_plan.wait == std::chrono::milliseconds::zero() && !m_plan.replace;
  if (decision.action == core::Action::busy && stays) {
    return m_telling.busy(seen);
  }
  return std::nullopt;
}

std::optional<Result> Pipeline::settle_other_date() {
  const std::optional<core::Sighting> other = m_ledger.pending_other(m_plan.key);
  if (!other || !other->run || lives(*other)) {
    return std::nullopt; // one that lives is found again behind the lock
  }
  const core::RunKey& key = other->run->key;
  Plan plan = m_plan;
  plan.key = key;
  plan.slot = core::slot_labelled(m_plan.period, *m_plan.zone, key.date.label());
  plan.rerun = false;
  if (m_plan.date_is_label) {
    // The asked date's command line must never run another date; only the check may settle it.
    plan.settle_only = true;
  }
  m_log.say(Level::note,
            core::title(key) + " is not settled and comes before " + m_plan.key.date.label());
  Pipeline before(plan, m_ledger, m_lock, m_signals, m_log);
  const Result result = before.acquire_and_run();
  if (result.outcome == core::Outcome::done) {
    return std::nullopt;
  }
  if (result.outcome == core::Outcome::signalled || result.outcome == core::Outcome::busy ||
      result.outcome == core::Outcome::blocked || result.outcome == core::Outcome::unrecorded) {
    return result;
  }
  Result held_back = result_of(core::Outcome::held, core::title(key) + " did not end done");
  held_back.started = result.started;
  m_log.say(Level::error, core::title(m_plan.key) + " is held: " + held_back.reason,
            "settle " + key.date.label() + " first: oncerun resolve, or a check");
  return held_back;
}

Result Pipeline::acquire_and_run() {
  m_publisher.check_writable();
  while (true) {
    std::unique_ptr<core::HeldLock> lock = m_lock.acquire(m_plan.key, m_deadline.left(), m_signals);
    const Round round = lock ? run_under(std::move(lock)) : locked_out();
    if (round.result) {
      return *round.result;
    }
  }
}

Pipeline::Round Pipeline::run_under(std::unique_ptr<core::HeldLock> lock) {
  if (const std::string missing = lock->missing_because(); !missing.empty()) {
    m_log.say(Level::warning, core::title(m_plan.key) + ": WITHOUT the lock: " + missing,
              "--lock-unavailable run said so; another host may run it at the same time");
  }
  Round round = claim_and_run(*lock);
  if (round.result) {
    leave_mark(*lock, mark_of(*round.result));
  }
  if (round.result && round.result->ending && round.result->ending->tree_left) {
    // What cannot be killed keeps the lock: the descriptor is closed at exit, never unlocked.
    static_cast<void>(lock.release());
  } else {
    lock->release();
  }
  return round;
}

/// The lock is held and --wait is over: says by whom. The holder may be between lock and claim, so
/// who it is may take a moment to be known.
Pipeline::Round Pipeline::locked_out() {
  const os::Deadline known_by = os::Deadline::after(std::chrono::milliseconds(100));
  std::optional<core::LockNote> note;
  while (true) {
    const core::Sighting seen = m_ledger.look(m_plan.key);
    if (lives(seen)) {
      return in_the_way(m_plan.key, seen);
    }
    // In a stampede the holder is as a rule another start that finds the date done, just as we do.
    const core::Decision decision = core::decide(situation(seen));
    if (decision.action == core::Action::leave) {
      return {m_telling.left_alone(seen, decision)};
    }
    for (const core::Sighting& other : m_ledger.overview(m_plan.key.job)) {
      if (other.run && lives(other) && other.run->key.date != m_plan.key.date) {
        return in_the_way(other.run->key, other);
      }
    }
    note = m_lock.holder();
    if (note || known_by.passed()) {
      break;
    }
    constexpr std::chrono::milliseconds k_step{10};
    sleep_unless_stopped(k_step, m_signals);
  }
  if (!note) {
    return {m_telling.blocked("the lock is held (" + m_lock.describe() + ")")};
  }
  const bool is_lease = !note->run_id.empty();
  const std::string who = note->host + ", pid " + std::to_string(note->pid);
  if (is_gone(*note) && is_lease) {
    return {m_telling.blocked("the lock is still held for " + note->date + " by " + who +
                              ", which is gone; it ends by itself (--lock-ttl)")};
  }
  if (is_gone(*note)) {
    return {m_telling.blocked("its lock is still held by what a run of " + note->date +
                              " left behind; see who it is with: fuser -v " +
                              m_lock.describe().substr(m_lock.describe().find(' ') + 1))};
  }
  if (note->date == m_plan.key.date.label() && note->job == m_plan.key.job.text()) {
    m_log.say(Level::skip, core::title(m_plan.key) +
                               (is_lease ? " is run by "
                                         : " is about to be "
                                           "run by ") +
                               who + ", since " + note->since);
    return {result_of(core::Outcome::busy,
                      is_lease ? "another oncerun runs it" : "another oncerun is about to run it")};
  }
  return {m_telling.blocked("the lock is held for " + note->date + " by " + who + ", since " +
                            note->since)};
}

Pipeline::Round Pipeline::claim_and_run(core::HeldLock& lock) {
  if (lock.found_mark() &&
      take_mark_in(m_plan, m_ledger, lock, request(lock, ""), m_signals, m_log)) {
    m_publisher.after_result();
  }
  return claim_with(
      lock, [this](const core::Sighting& seen) { return core::decide(situation(seen)); }, "");
}

Pipeline::Round Pipeline::claim_with(core::HeldLock& lock, const core::Decider& decider,
                                     const std::string& check_verdict) {
  const core::Decider gate = [this, &decider](const core::Sighting& seen) {
    core::Decision decision = decider(seen);
    const bool starts = decision.action == core::Action::start ||
                        decision.action == core::Action::start_new_generation;
    if (starts && m_plan.settle_only) {
      decision.action = core::Action::hold;
    }
    return decision;
  };
  core::ClaimOutcome outcome = m_ledger.claim(lock, request(lock, check_verdict), gate, m_signals);
  if (auto* claimed = std::get_if<core::Claimed>(&outcome)) {
    Result result = run_attempts(lock, std::move(*claimed));
    if (result.check_verdict.empty()) {
      result.check_verdict = check_verdict;
    }
    return {result};
  }
  if (const auto* other = std::get_if<core::OtherDateLives>(&outcome)) {
    lock.release();
    core::Sighting seen;
    seen.run = other->run;
    seen.owner = other->owner;
    seen.pids = other->pids;
    return in_the_way(other->run.key, seen);
  }
  return not_claimed(lock, std::get<core::NotClaimed>(outcome));
}

Pipeline::Round Pipeline::not_claimed(core::HeldLock& lock, const core::NotClaimed& found) {
  leave_mark(lock, mark_of(found.sighting));
  switch (found.decision.action) {
  case core::Action::leave:
    m_publisher.after_result(); // the row may be done by a result that was just posted
    return {m_telling.left_alone(found.sighting, found.decision)};
  case core::Action::busy:
    lock.release();
    return in_the_way(m_plan.key, found.sighting);
  case core::Action::ask:
    return ask(lock, found.sighting);
  case core::Action::hold:
  case core::Action::start:
  case core::Action::start_new_generation:
    break;
  }
  m_publisher.repair(found.sighting);
  return {m_telling.held(found.sighting, found.decision)};
}

Pipeline::Round Pipeline::ask(core::HeldLock& lock, const core::Sighting& seen) {
  const Answered answered = ask_about(m_plan, seen, m_signals, lock.lease());
  switch (answered.decision) {
  case core::AfterCheck::mark_done: {
    if (!m_ledger.settle(m_plan.key, seen, found_done(answered.verdict), m_signals)) {
      return {}; // it changed meanwhile: look again
    }
    m_publisher.after_result();
    if (lock.lease() != nullptr) {
      leave_mark(lock, mark_of(m_ledger.look(m_plan.key)));
    }
    Result result = result_of(core::Outcome::done, "the check found it done");
    result.status = core::name_of(core::RunStatus::done);
    result.check_verdict = answered.verdict;
    m_log.say(Level::note,
              core::title(m_plan.key) + ": the check found it done; nothing was started");
    return {result};
  }
  case core::AfterCheck::start:
    return claim_with(
        lock,
        [this, &seen](const core::Sighting& now) {
          const core::Decision decision = core::decide(situation(now));
          if (decision.action == core::Action::ask && same_attempt(seen, now)) {
            return core::Decision{core::Action::start, decision.reason};
          }
          return decision;
        },
        answered.verdict);
  case core::AfterCheck::ask_again:
  case core::AfterCheck::hold:
    break;
  }
  Result result = result_of(core::Outcome::held, "the check gave no clear answer");
  if (seen.run) {
    result.status = core::name_of(seen.run->status);
  }
  result.check_verdict = answered.verdict;
  m_log.say(Level::error,
            core::title(m_plan.key) +
                " is held: the check gave no clear answer: " + answered.verdict,
            "try it by hand with oncerun check, or settle it with oncerun resolve");
  return {result};
}

/// Another run lives, of this date or of another: waits, replaces, or says busy or blocked.
Pipeline::Round Pipeline::in_the_way(const core::RunKey& run, const core::Sighting& seen) {
  if (!m_deadline.passed()) {
    wait_for_change(run);
    return {};
  }
  if (m_plan.replace && !m_replaced) {
    m_replaced = true;
    if (stop_run_in_the_way(m_plan, m_ledger, run, m_signals, m_log) == Replaced::gone) {
      // The stopped owner lets go of the lock after its run; nobody else is waited for by this.
      constexpr std::chrono::milliseconds k_until_released{2'000};
      m_deadline = os::Deadline::after(k_until_released);
      return {};
    }
  }
  if (run.date == m_plan.key.date) {
    return {m_telling.busy(seen)};
  }
  if (seen.owner == core::OwnerLife::orphaned) {
    return {
        m_telling.blocked("the command of " + run.date.label() +
                          " still runs though its oncerun is gone: " + Telling::pids(seen.pids))};
  }
  return {m_telling.blocked(run.date.label() + " is running since " + seen.run->started_at +
                            " on " + seen.run->host + ", pid " + std::to_string(seen.run->pid))};
}

void Pipeline::wait_for_change(const core::RunKey& run) {
  while (!m_deadline.passed() && lives(m_ledger.look(run))) {
    sleep_unless_stopped(std::min(k_poll, m_deadline.left()), m_signals);
  }
}

core::Settlement Pipeline::found_done(const std::string& verdict) const {
  return {core::RunStatus::done, "check",    os::who_am_i(), verdict,
          m_plan.period.text(),  zone_name()};
}

std::string Pipeline::zone_name() const {
  return m_plan.zone != nullptr ? m_plan.zone->name() : "";
}

/// For the first attempt under this lock.
core::ClaimRequest Pipeline::request(const core::HeldLock& lock,
                                     const std::string& check_verdict) const {
  core::ClaimRequest request{.key = m_plan.key,
                             .period = m_plan.period.text(),
                             .zone = zone_name(),
                             .sortable_labels = !m_plan.period.is_key(),
                             .guarantee = m_plan.guarantee,
                             .run_id = lock.run_id(),
                             .check_verdict = check_verdict,
                             .evidence = std::nullopt};
  if (request.run_id.empty()) {
    request.run_id = os::random_uuid();
  }
  request.timeout = k_claim_wait;
  request.warning = lock.missing_because();
  request.lock_token = lock.token();
  take_evidence(m_plan, m_publisher.job_is_known(), request);
  return request;
}

} // namespace oncerun::run
