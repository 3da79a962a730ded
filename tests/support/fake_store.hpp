#pragma once

// The memory of FakeLedger and its rules: every transition has the condition that a real ledger
// puts into its statement.

#include "core/error.hpp"
#include "core/ledger.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace oncerun::test {

/// A row and an attempt in which nothing but the key is set.
[[nodiscard]] inline core::RunRecord blank_run(const core::RunKey& key) {
  return {
      key, core::RunStatus::pending, false, false, 1, 0, 0, "", {}, "", 0, "", "", "", {}, {}, true,
      ""};
}
[[nodiscard]] inline core::AttemptRecord blank_attempt(const core::RunKey& key) {
  return {key, 0, 0, 1, "", {}, "", "", {}, "", "", "", false, {}, {}, "", {}};
}

/// What a test says about the life of an attempt's owner.
struct FakeLife {
  core::OwnerLife life = core::OwnerLife::dead;
  std::vector<pid_t> pids;
};

/// What outlives the ledger object as long as a Claim exists.
struct FakeStore {
  std::string now = "2026-10-26T02:00:00.000Z";
  std::map<core::JobName, core::JobRecord> jobs;
  std::map<core::RunKey, core::RunRecord> runs;
  std::vector<core::AttemptRecord> attempts;
  std::vector<core::EventRecord> events;
  std::vector<core::AttemptResult> spooled;
  std::map<std::string, FakeLife> lives; ///< by run id: what a test said
  std::set<std::string> claims;          ///< run ids whose Claim object exists
  std::map<core::JobName, std::string> told_on;
  std::int64_t last_serial = 0;
  int accepted = 0;
  std::optional<core::Error> claim_error;
  std::optional<core::Error> finish_error;
  std::optional<core::Error> ask_error;
  std::optional<core::Error> spool_error;
  std::function<void()> before_write;

  static bool open_or_unsettled(const core::RunRecord& row) {
    return row.status == core::RunStatus::pending || row.status == core::RunStatus::failed ||
           row.status == core::RunStatus::unknown || !row.end_recorded;
  }

  void begin_write(const core::StopRequest& stop) {
    if (const int signal = stop.pending()) {
      throw core::Interrupted(signal);
    }
    if (before_write) {
      // Once: the hook itself may write.
      std::exchange(before_write, nullptr)();
    }
  }

  core::JobRecord& know(const core::JobName& job, const std::string& period,
                        const std::string& zone) {
    return jobs.try_emplace(job, core::JobRecord{job, period, zone, {999}, {}, now}).first->second;
  }

  FakeLife life_of(const core::RunRecord& row) const {
    const bool final_status =
        row.status == core::RunStatus::done || row.status == core::RunStatus::skipped;
    if (row.run_id.empty() || (row.end_recorded && final_status)) {
      return {core::OwnerLife::settled, {}};
    }
    if (const auto said = lives.find(row.run_id); said != lives.end()) {
      return said->second;
    }
    if (claims.contains(row.run_id)) {
      return {core::OwnerLife::alive, {row.pid}};
    }
    return {row.end_recorded ? core::OwnerLife::settled : core::OwnerLife::dead, {}};
  }

  core::Sighting see(const core::RunKey& key) const {
    core::Sighting sighting;
    if (const auto job = jobs.find(key.job); job != jobs.end()) {
      sighting.job = job->second;
      sighting.at_or_below_floor = job->second.floor && key.date <= *job->second.floor;
    }
    if (const auto row = runs.find(key); row != runs.end()) {
      sighting.run = row->second;
      FakeLife life = life_of(row->second);
      sighting.owner = life.life;
      sighting.pids = std::move(life.pids);
    }
    return sighting;
  }

  void import(const core::ClaimRequest& request) {
    core::JobRecord& job = know(request.key.job, request.period, request.zone);
    const core::StateDocument& evidence = *request.evidence;
    const auto add = [&](const core::BizDate& date, core::RunStatus status) {
      core::RunRecord row = blank_run({request.key.job, date});
      row.status = status;
      row.started_at = row.updated_at = row.finished_at = now;
      row.note = "from the state file";
      runs.try_emplace(row.key, row);
      note_event(row.key, "import", "", std::string(core::name_of(status)), "", row.note);
    };
    if (evidence.last_published) {
      add(*evidence.last_published, core::RunStatus::done);
      job.floor = evidence.last_published;
    }
    if (evidence.pending_date && evidence.pending_date != evidence.last_published &&
        evidence.status != core::StateDocument::Status::done) {
      add(*evidence.pending_date, core::RunStatus::unknown);
    }
  }

  std::optional<core::OtherDateLives> other_date(const core::RunKey& key) const {
    for (const auto& [other, row] : runs) {
      if (other.job != key.job || other.date == key.date || row.end_recorded) {
        continue;
      }
      FakeLife life = life_of(row);
      if (life.life == core::OwnerLife::alive || life.life == core::OwnerLife::orphaned) {
        return core::OtherDateLives{row, life.life, std::move(life.pids)};
      }
    }
    return std::nullopt;
  }

  static std::string previous_of(const core::Sighting& sighting) {
    switch (sighting.row()) {
    case core::RowState::none:
      return "none";
    case core::RowState::never_started:
      return "never-started";
    case core::RowState::pending:
    case core::RowState::late_success:
      return "unknown";
    default:
      return std::string(core::name_of(sighting.run->status));
    }
  }

  core::AttemptRecord* attempt_of(const std::string& run_id) {
    const auto found =
        std::find_if(attempts.begin(), attempts.end(),
                     [&](const core::AttemptRecord& attempt) { return attempt.run_id == run_id; });
    return found == attempts.end() ? nullptr : &*found;
  }

  void close_attempt(const std::string& run_id, const std::string& result,
                     const std::string& note) {
    core::AttemptRecord* attempt = attempt_of(run_id);
    if (attempt != nullptr && attempt->ended_at.empty()) {
      attempt->ended_at = now;
      attempt->result = result;
      attempt->note = note;
    }
  }

  core::ClaimedRun write_claim(const core::ClaimRequest& request, const core::Sighting& seen,
                               bool rerun) {
    core::JobRecord& job = know(request.key.job, request.period, request.zone);
    job.last_token.value += 1;
    core::RunRecord& row = runs.try_emplace(request.key, blank_run(request.key)).first->second;
    if (!row.end_recorded) {
      close_attempt(row.run_id, "unknown", "its owner was gone");
    }
    core::RunRecord next = blank_run(request.key);
    next.status = core::RunStatus::pending;
    next.generation = row.generation + (rerun ? 1 : 0);
    next.attempts = row.attempts + 1;
    next.serial = ++last_serial;
    next.run_id = request.run_id;
    next.token = job.last_token;
    next.host = "here";
    next.pid = 4242;
    next.started_at = next.updated_at = now;
    next.end_recorded = false;
    row = next;

    core::AttemptRecord attempt = blank_attempt(request.key);
    attempt.serial = next.serial;
    attempt.number = next.attempts;
    attempt.generation = next.generation;
    attempt.run_id = request.run_id;
    attempt.token = next.token;
    attempt.guarantee = std::string(core::name_of(request.guarantee));
    attempt.previous = previous_of(seen);
    attempt.owner.host = next.host;
    attempt.owner.pid = next.pid;
    attempt.claimed_at = now;
    attempts.push_back(attempt);

    core::ClaimedRun claimed{request.key,   request.run_id,  next.token,       next.serial,
                             next.attempts, next.generation, attempt.previous, "",
                             false};
    if (!request.check_verdict.empty()) {
      note_event(request.key, "check", "", "", "", request.check_verdict, request.run_id);
    }
    return claimed;
  }

  std::optional<core::Unsettled> unsettled(const core::ClaimRequest& request) {
    const std::string today = now.substr(0, 10);
    core::Unsettled found;
    for (const auto& [key, row] : runs) {
      const bool older = key.job == request.key.job && key.date < request.key.date;
      if (older && open_or_unsettled(row) && life_of(row).life != core::OwnerLife::alive) {
        ++found.count;
        if (found.oldest.size() < 3) {
          found.oldest.push_back(key);
        }
      }
    }
    if (!request.sortable_labels || found.count == 0 || told_on[request.key.job] == today) {
      return std::nullopt;
    }
    told_on[request.key.job] = today;
    return found;
  }

  bool settle(const core::RunKey& key, const core::Sighting& seen,
              const core::Settlement& settlement) {
    const auto found = runs.find(key);
    if ((found != runs.end()) != seen.run.has_value()) {
      return false;
    }
    if (found == runs.end()) {
      if (!jobs.contains(key.job)) {
        if (settlement.period.empty()) {
          throw core::Error(core::Outcome::config,
                            "the ledger does not know the job " + key.job.text());
        }
        know(key.job, settlement.period, settlement.zone);
      }
      core::RunRecord row = blank_run(key);
      row.status = settlement.to;
      row.started_at = row.updated_at = row.finished_at = now;
      row.note = settlement.detail;
      runs.emplace(key, row);
      note_event(key, settlement.kind, "", std::string(core::name_of(settlement.to)), settlement.by,
                 settlement.detail);
      return true;
    }
    core::RunRecord& row = found->second;
    if (row.run_id != seen.run->run_id || row.token != seen.run->token ||
        row.status != seen.run->status) {
      return false;
    }
    const std::string from(core::name_of(row.status));
    close_attempt(row.run_id, settlement.to == core::RunStatus::done ? "done" : "unknown",
                  settlement.kind + ": " + settlement.detail);
    row.status = settlement.to;
    row.never_started = false;
    row.late_success = false;
    row.end_recorded = true;
    row.updated_at = row.finished_at = now;
    row.note = settlement.kind + ": " + settlement.detail;
    note_event(key, settlement.kind, from, std::string(core::name_of(settlement.to)), settlement.by,
               settlement.detail, row.run_id);
    return true;
  }

  void note_event(const std::optional<core::RunKey>& key, const std::string& kind,
                  const std::string& from, const std::string& to, const std::string& by,
                  const std::string& detail, const std::string& run_id = {}) {
    events.push_back({key, now, kind, from, to, run_id, by, detail});
  }

  core::StateDocument projection(const core::JobName& job) const {
    core::StateDocument document;
    document.job = job.text();
    if (const auto known = jobs.find(job); known != jobs.end()) {
      document.every = known->second.period;
    }
    using Status = core::StateDocument::Status;
    for (const auto& [key, row] : runs) { // dates ascend within a job
      if (key.job != job) {
        continue;
      }
      if (row.status == core::RunStatus::done) {
        document.last_published = key.date;
      } else if (open_or_unsettled(row) && !document.pending_date) {
        document.pending_date = key.date;
        const bool pending = row.status == core::RunStatus::pending;
        const bool dead = life_of(row).life == core::OwnerLife::dead;
        document.status = pending && !dead                        ? Status::pending
                          : row.status == core::RunStatus::failed ? Status::failed
                                                                  : Status::unknown;
      }
    }
    if (!document.pending_date && document.last_published) {
      document.status = Status::done;
    }
    return document;
  }

  core::Recorded finish(const core::ClaimedRun& claimed, const core::AttemptResult& result) {
    core::AttemptRecord* attempt = attempt_of(claimed.run_id);
    const auto found = runs.find(claimed.key);
    const bool mine = found != runs.end() && found->second.run_id == claimed.run_id &&
                      found->second.token == claimed.token;
    const bool pending = mine && found->second.status == core::RunStatus::pending;
    const bool marked = mine && found->second.status == core::RunStatus::done;
    if (!pending && !marked) {
      return core::Recorded::lost;
    }
    core::RunRecord& row = found->second;
    row.status = marked ? core::RunStatus::done : result.status;
    row.never_started = pending && result.never_started;
    row.exit_code = result.exit_code;
    row.signal = result.signal;
    row.note = result.note;
    row.end_recorded = true;
    row.updated_at = row.finished_at = now;
    if (attempt != nullptr) {
      attempt->ended_at = now;
      attempt->result = std::string(core::name_of(row.status));
      attempt->never_started = row.never_started;
      attempt->exit_code = result.exit_code;
      attempt->signal = result.signal;
      attempt->note = result.note;
      attempt->usage = result.usage;
    }
    return marked ? core::Recorded::marked_by_command : core::Recorded::recorded;
  }
};

} // namespace oncerun::test
