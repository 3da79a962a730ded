#include "ledger/results.hpp"

#include "ledger/rows.hpp"

namespace oncerun::ledger {

using core::OwnerLife;
using core::Recorded;
using core::RunStatus;

namespace {

constexpr const char* k_end_run = R"sql(
UPDATE job_run SET
  status = CASE WHEN late_success = 1 AND ?1 <> 'done' THEN 'unknown' ELSE ?1 END,
  late_success = CASE WHEN ?1 = 'done' THEN 0 WHEN ?11 THEN 1 ELSE late_success END,
  never_started = ?2, exit_code = ?3, signal = ?4, note = ?5, finished_at = ?6, updated_at = ?6
WHERE job_name = ?7 AND biz_date = ?8 AND run_id = ?9 AND fencing_token = ?10
  AND status = 'pending')sql";

// The command changed status and updated_at; the rest is ours to add, once.
constexpr const char* k_complete_marked = R"sql(
UPDATE job_run SET exit_code = ?1, signal = ?2, finished_at = ?3
WHERE job_name = ?4 AND biz_date = ?5 AND run_id = ?6 AND fencing_token = ?7
  AND status = 'done' AND finished_at IS NULL)sql";

constexpr const char* k_end_attempt = R"sql(
UPDATE job_attempt SET ended_at = ?1, ended_by = ?2, result = ?3, never_started = ?4,
  exit_code = ?5, signal = ?6, user_us = ?7, system_us = ?8, max_rss_kib = ?9, note = ?10
WHERE serial = ?11 AND run_id = ?12
  AND (ended_by IS NULL OR ended_by NOT IN ('owner', 'spool')))sql";

void end_attempt(Database& database, const AttemptEnd& end, RunStatus status, std::string_view by) {
  const core::AttemptResult& result = end.result;
  const auto used = [&](std::int64_t amount) {
    return result.never_started ? Value(std::nullopt) : Value(amount);
  };
  database.run(k_end_attempt, end.at, by, core::name_of(status), result.never_started,
               result.exit_code, result.signal, used(result.usage.user.count()),
               used(result.usage.system.count()), used(result.usage.max_rss_kib), result.note,
               end.serial, end.run_id);
}

/// What the run is after this attempt, which was never started, by what stood there before it.
core::GivenBack given_back(Database& database, const AttemptEnd& end) {
  Statement statement =
      database.prepare("SELECT previous FROM job_attempt WHERE serial = ?1 AND run_id = ?2");
  return core::given_back(statement.bind(end.serial, end.run_id).step() ? statement.text(0) : "");
}

/// An attempt of this ledger whose result came late.
struct LateAttempt {
  core::RunKey key;
  int generation = 1;
  bool complete = false; ///< its record was written by its owner, or posted before
};

std::optional<LateAttempt> late_attempt(Database& database, const SpooledResult& spooled) {
  Statement statement = database.prepare(
      "SELECT job_name, biz_date, generation, coalesce(ended_by IN ('owner', 'spool'), 0) "
      "FROM job_attempt WHERE serial = ?1 AND run_id = ?2");
  if (!statement.bind(spooled.serial, spooled.run_id).step()) {
    return std::nullopt;
  }
  return LateAttempt{{read_job_name(statement, 0), core::BizDate(statement.text(1))},
                     read_count(statement, 2),
                     statement.integer(3) != 0};
}

/// A success that came when the row was no longer its attempt's to finish. It never touches a done
/// run or a live claim (there it is only noted, for the moment when that claim ends otherwise);
/// else the run becomes unknown, which holds it until a check or a person has spoken.
void note_late_success(Writing& writing, const LateAttempt& attempt) {
  const auto found = find(writing.db(), attempt.key);
  if (!found || !found->row) {
    return;
  }
  const Row& row = *found->row;
  // A later generation was begun on purpose, when this one was known to be done.
  if (row.run.status == RunStatus::done || row.run.generation != attempt.generation) {
    return;
  }
  const bool pending = row.run.status == RunStatus::pending;
  const OwnerLife owner = life_of(writing.store(), writing.life(), row).first;
  const bool live = pending && owner != OwnerLife::dead && owner != OwnerLife::settled;
  writing.db().run("UPDATE job_run SET late_success = 1, status = ?1, note = ?2, updated_at = ?3 "
                   "WHERE job_name = ?4 AND biz_date = ?5",
                   live ? row.stored_status : std::string(core::name_of(RunStatus::unknown)),
                   "an older attempt reported success late", writing.now(), attempt.key.job.text(),
                   attempt.key.date.label());
}

std::string describe(const core::AttemptResult& result) {
  std::string text = std::string(core::name_of(result.status));
  if (result.exit_code) {
    text += ", exit " + std::to_string(*result.exit_code);
  } else if (result.signal) {
    text += ", signal " + std::to_string(*result.signal);
  }
  return text + ", posted from the spool";
}

} // namespace

Recorded record_end(Database& database, const AttemptEnd& end, std::string_view by) {
  const core::AttemptResult& result = end.result;
  const std::string& job = end.key.job.text();
  const std::string& date = end.key.date.label();
  const core::GivenBack standing = result.never_started
                                       ? given_back(database, end)
                                       : core::GivenBack{result.status, false, false};
  const int changed =
      database.run(k_end_run, core::name_of(standing.status), standing.never_started,
                   result.exit_code, result.signal, result.note, end.at, job, date, end.run_id,
                   end.token.value, standing.late_success);
  if (changed == 1) {
    end_attempt(database, end, result.status, by);
    return Recorded::recorded;
  }
  Statement statement =
      database.prepare("SELECT r.status, coalesce(a.ended_by, '') FROM job_run r "
                       "JOIN job_attempt a ON a.serial = ?1 AND a.run_id = ?2 "
                       "WHERE r.job_name = ?3 AND r.biz_date = ?4 AND r.run_id = ?2 "
                       "AND r.fencing_token = ?5");
  if (!statement.bind(end.serial, end.run_id, job, date, end.token.value).step()) {
    return Recorded::lost;
  }
  const std::string status = statement.text(0);
  const std::string ended_by = statement.text(1);
  if (ended_by == "owner" || ended_by == "spool") {
    // An earlier try of the same, whose commit was reported as failed, went through after all.
    return Recorded::recorded;
  }
  if (status != core::name_of(RunStatus::done) || !ended_by.empty()) {
    return Recorded::lost;
  }
  database.run(k_complete_marked, result.exit_code, result.signal, end.at, job, date, end.run_id,
               end.token.value);
  end_attempt(database, end, RunStatus::done, by);
  return Recorded::marked_by_command;
}

namespace {

void post(Writing& writing, const LateAttempt& attempt, const SpooledResult& spooled) {
  Database& database = writing.db();
  const auto before = find(database, attempt.key);
  const AttemptEnd end{attempt.key,    spooled.run_id, spooled.token,
                       spooled.serial, spooled.result, spooled.ended_at};
  const Recorded recorded = record_end(database, end, "spool");
  if (recorded == Recorded::lost) {
    end_attempt(database, end, spooled.result.status, "spool");
    if (spooled.result.status == RunStatus::done) {
      note_late_success(writing, attempt);
    }
  }
  const auto after = find(database, attempt.key);
  const auto status = [](const std::optional<Found>& found) {
    return found && found->row ? found->row->stored_status : std::string();
  };
  add_event(writing, {.key = attempt.key,
                      .at = {},
                      .kind = "late-result",
                      .from_status = status(before),
                      .to_status = status(after),
                      .run_id = spooled.run_id,
                      .by = {},
                      .detail = describe(spooled.result)});
}

} // namespace

void record_late(Writing& writing, const SpooledResult& result) {
  if (const auto attempt = late_attempt(writing.db(), result); attempt && !attempt->complete) {
    post(writing, *attempt, result);
  }
}

std::vector<SpoolEntry> post_spooled(Writing& writing) {
  std::vector<SpoolEntry> posted;
  for (const Spool& spool : writing.store().spools(writing.db(), writing.meta())) {
    for (SpoolEntry& entry : spool.entries()) {
      const auto keep = [&](std::string_view why) {
        writing.store().notices().push_back(entry.path + ": the result at byte " +
                                            std::to_string(entry.offset) + " " + std::string(why) +
                                            "; it is kept");
      };
      if (!entry.result) {
        keep("cannot be read");
        continue;
      }
      const bool ours = entry.result->ledger_id == writing.meta().ledger_id;
      const auto attempt = ours ? late_attempt(writing.db(), *entry.result) : std::nullopt;
      if (!attempt && entry.result->result.never_started) {
        // Its claim was given back, and is not there: nothing of it is left to be told.
        posted.push_back(std::move(entry));
        continue;
      }
      if (!ours) {
        keep("belongs to another ledger");
        continue;
      }
      if (!attempt) {
        keep("belongs to an attempt that the ledger does not know");
        continue;
      }
      if (!attempt->complete) {
        post(writing, *attempt, *entry.result);
      }
      posted.push_back(std::move(entry));
    }
  }
  return posted;
}

bool post_spooled_since(Writing& writing, std::int64_t serial, std::vector<SpoolEntry>& posted) {
  bool any = false;
  for (const Spool& spool : writing.store().spools(writing.db(), writing.meta())) {
    for (SpoolEntry& entry : spool.entries()) {
      if (!entry.result || entry.result->serial != serial ||
          entry.result->ledger_id != writing.meta().ledger_id) {
        continue;
      }
      const auto attempt = late_attempt(writing.db(), *entry.result);
      if (attempt && !attempt->complete) {
        post(writing, *attempt, *entry.result);
        posted.push_back(std::move(entry));
        any = true;
      }
    }
  }
  return any;
}

void clear_posted(Store& store, const std::vector<SpoolEntry>& posted) noexcept {
  for (const SpoolEntry& entry : posted) {
    try {
      Spool::clear(entry);
    } catch (const std::exception& error) {
      store.notices().push_back(error.what());
    }
  }
}

} // namespace oncerun::ledger
