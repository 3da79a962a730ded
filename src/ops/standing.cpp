#include "ops/standing.hpp"

#include "core/decide.hpp"
#include "core/outcome.hpp"

#include <fmt/format.h>

namespace oncerun::ops {

namespace {

// The order in which a person should look.
enum Rank : int {
  rank_orphaned,
  rank_not_provable,
  rank_unknown,
  rank_failed,
  rank_at_work,
  rank_ready,
  rank_final,
  rank_none,
};

/// "first; second"; a second that already says the first stands alone.
std::string joined(std::string first, const std::string& second) {
  if (second.find(first) != std::string::npos) {
    return second;
  }
  if (!first.empty() && !second.empty()) {
    first += "; ";
  }
  return first + second;
}

/// By the row alone; the owner is gone.
Standing standing_of_row(const core::RunRecord& run, bool owner_dead) {
  const std::string exit = exit_words(run.exit_code, run.signal);
  Standing standing;
  standing.word = core::name_of(run.status);
  standing.note = joined(exit, run.note);
  switch (run.status) {
  case core::RunStatus::done:
    standing.tone = Tone::good;
    standing.rank = rank_final;
    standing.note = run.note == "exit 0" ? std::string() : run.note;
    break;
  case core::RunStatus::skipped:
    standing.tone = Tone::faint;
    standing.rank = rank_final;
    break;
  case core::RunStatus::ready:
    standing.tone = Tone::busy;
    standing.rank = rank_ready;
    break;
  case core::RunStatus::failed:
    standing.tone = Tone::bad;
    standing.rank = rank_failed;
    standing.unsettled = true;
    if (run.never_started) {
      standing.note = run.note.empty() ? "never started" : "never started: " + run.note;
    }
    break;
  case core::RunStatus::unknown:
  case core::RunStatus::pending:
    standing.word = core::name_of(core::RunStatus::unknown);
    standing.tone = Tone::doubt;
    standing.rank = rank_unknown;
    standing.unsettled = true;
    if (owner_dead || run.status == core::RunStatus::pending) {
      standing.note = joined("its owner is gone, its end was not recorded", run.note);
    } else if (run.late_success) {
      standing.note = joined("an older attempt reported success late", run.note);
    }
    break;
  }
  return standing;
}

} // namespace

Standing standing_of(const core::Sighting& sighting) {
  if (!sighting.run) {
    return {
        "none",      sighting.at_or_below_floor ? "settled before this ledger kept the date" : "",
        Tone::faint, false,
        false,       rank_none};
  }
  const core::RunRecord& run = *sighting.run;
  switch (sighting.owner) {
  case core::OwnerLife::alive: {
    const bool between = run.status == core::RunStatus::failed ||
                         run.status == core::RunStatus::unknown ||
                         run.status == core::RunStatus::ready;
    if (!between) {
      // A command may have marked its own row done while it still runs.
      const bool marked = run.status == core::RunStatus::done;
      return {"running",  marked ? "it has marked its run done" : run.note,
              Tone::busy, false,
              true,       rank_at_work};
    }
    return {"retrying", joined(exit_words(run.exit_code, run.signal), run.note),
            Tone::busy, false,
            true,       rank_at_work};
  }
  case core::OwnerLife::orphaned:
    return {"orphaned",   "oncerun is gone, what it started still runs", Tone::bad, true, true,
            rank_orphaned};
  case core::OwnerLife::not_provable: {
    const std::string where = run.host.empty() ? "its owner" : "its owner on " + run.host;
    return {"not-provable", "whether " + where + " still lives cannot be proven from here",
            Tone::bad,      true,
            false,          rank_not_provable};
  }
  case core::OwnerLife::dead:
  case core::OwnerLife::settled:
    break;
  }
  return standing_of_row(run, sighting.owner == core::OwnerLife::dead);
}

std::string who_of(const core::Sighting& sighting) {
  if (!sighting.run || sighting.owner == core::OwnerLife::settled) {
    return {};
  }
  const core::RunRecord& run = *sighting.run;
  const std::string host = run.host.empty() ? "?" : run.host;
  if (sighting.owner == core::OwnerLife::orphaned && !sighting.pids.empty()) {
    return host + ":" + pid_list(sighting.pids);
  }
  return fmt::format("{}:{}", host, run.pid);
}

std::optional<std::chrono::milliseconds> duration_of(const core::Sighting& sighting, Instant now) {
  if (!sighting.run || sighting.run->attempts == 0) {
    return std::nullopt;
  }
  const core::RunRecord& run = *sighting.run;
  if (sighting.owner == core::OwnerLife::settled) {
    // An end that a check or a person settled later says nothing about how long the command took.
    if (!run.exit_code && !run.signal) {
      return std::nullopt;
    }
    return between(run.started_at, run.finished_at);
  }
  return standing_of(sighting).alive ? since(run.started_at, now) : std::nullopt;
}

const std::string& since_of(const core::RunRecord& run) {
  if (!run.end_recorded || run.updated_at.empty()) {
    return run.started_at;
  }
  return run.updated_at;
}

std::string exit_of(std::optional<int> exit_code, std::optional<int> signal) {
  if (signal) {
    return core::signal_name(*signal);
  }
  return exit_code ? std::to_string(*exit_code) : std::string();
}

std::string exit_words(std::optional<int> exit_code, std::optional<int> signal) {
  if (signal) {
    return fmt::format("signal {} ({})", *signal, core::signal_name(*signal));
  }
  return exit_code ? fmt::format("exit {}", *exit_code) : std::string();
}

std::string pid_list(const std::vector<pid_t>& pids) {
  constexpr std::size_t k_most = 8;
  std::string text;
  for (std::size_t i = 0; i < pids.size() && i < k_most; ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(pids[i]);
  }
  return pids.size() > k_most ? text + ", …" : text;
}

std::string next_start(const core::Sighting& sighting) {
  core::Situation situation;
  situation.row = sighting.row();
  situation.owner = sighting.owner;
  situation.at_or_below_floor = sighting.at_or_below_floor;
  return decision_words(core::decide(situation));
}

std::string decision_words(const core::Decision& decision) {
  const std::string_view why = core::explain(decision.reason);
  const auto with_code = [&](std::string_view what, core::Outcome outcome) {
    return fmt::format("{} (exit {}): {}", what, core::row_of(outcome).code, why);
  };
  switch (decision.action) {
  case core::Action::leave:
    return with_code("starts nothing", core::Outcome::done);
  case core::Action::busy:
    return with_code("starts nothing", core::Outcome::busy);
  case core::Action::hold:
    return with_code("holds", core::Outcome::held);
  case core::Action::start:
    return fmt::format("starts the command: {}", why);
  case core::Action::start_new_generation:
    return fmt::format("starts the command anew: {}", why);
  case core::Action::ask:
    return fmt::format("asks the check first: {}", why);
  }
  return {};
}

} // namespace oncerun::ops
