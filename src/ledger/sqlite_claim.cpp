#include "ledger/sqlite_claim.hpp"

#include "ledger/results.hpp"
#include "os/clock.hpp"

#include <malloc.h>
#include <poll.h>

#include <algorithm>

namespace oncerun::ledger {

namespace {

/// A WAL of that many frames is copied into the database while the command runs: the commit of the
/// result then begins it anew. Fewer are not worth two syncs.
constexpr int k_checkpoint_frames = 100;
/// From here on it is worth a short wait for the guard, and a checkpoint before the result's commit
/// where there was no time for one while the command ran.
constexpr int k_long_wal_frames = 200;
constexpr std::chrono::milliseconds k_guard_patience{50};
constexpr int k_first_rest_ms = 10;
constexpr int k_longest_rest_ms = 250;

} // namespace

SqliteClaim::SqliteClaim(std::shared_ptr<Store> store, core::ClaimedRun run, std::string ledger_id,
                         os::HeldLife life, SpoolSlot slot)
    : m_store(std::move(store)), m_run(std::move(run)), m_ledger_id(std::move(ledger_id)),
      m_life(std::move(life)), m_slot(std::move(slot)), m_log(m_store->log_identity()) {
  m_store->own().insert(m_run.serial);
}

SqliteClaim::~SqliteClaim() {
  // The bytes and the slot go with the members.
  m_store->own().erase(m_run.serial);
}

void SqliteClaim::while_running() noexcept {
  static const core::NoStopRequest s_no_stop;
  try {
    Database& database = m_store->claimed_writer(os::Deadline::after({}), s_no_stop);
    m_store->reserve_room();
    const int frames = database.wal_frames();
    if (frames >= k_checkpoint_frames) {
      const auto patience =
          frames >= k_long_wal_frames ? k_guard_patience : std::chrono::milliseconds::zero();
      const auto guard = m_store->guard().lock(os::Deadline::after(patience), s_no_stop);
      (void)database.checkpoint();
    }
  } catch (const std::exception&) {
    // Somebody else is at it, or there will be another time: the claim stands as it is.
  }
}

void SqliteClaim::while_waiting() noexcept {
  static const core::NoStopRequest s_no_stop;
  try {
    Database& database = m_store->claimed_writer(os::Deadline::after({}), s_no_stop);
    database.release_memory();
    // Every frame that is left costs each later start, most of all one that skips: it reads the
    // whole log. There is time now, so that few frames are as good a reason as many.
    {
      const auto guard = m_store->guard().lock(os::Deadline::after({}), s_no_stop);
      (void)database.checkpoint();
    }
    m_store->reserve_room();
    database.release_memory();
  } catch (const std::exception&) {
    // As above: somebody else writes just now.
  }
  // The heap's free pages too: this process may now wait for hours.
  ::malloc_trim(0);
}

core::Recorded SqliteClaim::finish(const core::AttemptResult& result,
                                   std::chrono::milliseconds timeout,
                                   const core::StopRequest& stop) {
  const os::Deadline deadline = os::Deadline::after(timeout);
  if (m_ended_at.empty()) {
    m_ended_at = os::now_text();
  }
  for (int rest = k_first_rest_ms;; rest = std::min(2 * rest, k_longest_rest_ms)) {
    try {
      return try_finish(result, deadline, stop);
    } catch (const LedgerReplaced&) {
      throw; // it will not come back
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
    (void)::poll(nullptr, 0,
                 static_cast<int>(std::min<std::int64_t>(rest, deadline.left().count())));
  }
}

core::Recorded SqliteClaim::try_finish(const core::AttemptResult& result,
                                       const os::Deadline& deadline,
                                       const core::StopRequest& stop) {
  const core::Recorded recorded = record(result, deadline, stop);
  if (recorded == core::Recorded::lost) {
    Writing writing(*m_store, deadline, stop);
    record_late(writing, spooled(result));
    writing.commit();
  }
  return recorded;
}

core::Recorded SqliteClaim::record(const core::AttemptResult& result, const os::Deadline& deadline,
                                   const core::StopRequest& stop) {
  Database& database = m_store->claimed_writer(deadline, stop);
  const auto guard = m_store->guard().lock(deadline, stop);
  if (database.wal_frames() >= k_long_wal_frames) {
    (void)database.checkpoint();
  }
  refuse_replaced_log();
  Transaction transaction(database);
  const core::Recorded recorded = record_end(
      database, {m_run.key, m_run.run_id, m_run.token, m_run.serial, result, m_ended_at}, "owner");
  if (recorded == core::Recorded::lost) {
    return recorded;
  }
  const std::int64_t change = count_change(database);
  transaction.commit();
  // SQLite goes on writing into a log that was removed, and nobody will ever read it.
  refuse_replaced_log();
  m_store->remember_change(change);
  return recorded;
}

void SqliteClaim::refuse_replaced_log() const {
  if (m_store->log_identity() != m_log) {
    throw LedgerReplaced(core::Outcome::unavailable,
                         m_store->path() + "-wal was removed or replaced while the run went on");
  }
}

SpooledResult SqliteClaim::spooled(const core::AttemptResult& result) const {
  return {m_ledger_id,
          m_run.run_id,
          m_run.serial,
          m_run.token,
          m_ended_at.empty() ? os::now_text() : m_ended_at,
          result};
}

std::string SqliteClaim::spool(const core::AttemptResult& result) {
  if (!m_slot) {
    throw core::Error(core::Outcome::unwritable, "there is no spool to keep the result in",
                      "leave out --spool none");
  }
  m_slot.write(spooled(result));
  return m_slot.path();
}

} // namespace oncerun::ledger
