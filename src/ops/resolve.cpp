#include "ops/resolve.hpp"

#include "core/error.hpp"
#include "ops/human.hpp"
#include "ops/json.hpp"
#include "ops/standing.hpp"

#include <fmt/format.h>

namespace oncerun::ops {

namespace {

constexpr std::size_t k_max_reason = 1000;

core::RunStatus target_of(const ResolveOptions& options) {
  const int given = int{options.done} + int{options.ready} + int{options.skip};
  if (given != 1) {
    throw core::UsageError(given == 0 ? "resolve needs one of --done, --ready and --skip"
                                      : "resolve takes only one of --done, --ready and --skip",
                           "--done: it happened; --ready: the next start runs it without asking; "
                           "--skip: it shall not run");
  }
  if (options.done) {
    return core::RunStatus::done;
  }
  return options.ready ? core::RunStatus::ready : core::RunStatus::skipped;
}

void check_reason(const std::string& reason) {
  const std::string hint = "--reason TEXT is kept in the history: say how you know";
  if (reason.find_first_not_of(' ') == std::string::npos) {
    throw core::UsageError("resolve needs a reason", hint);
  }
  if (!core::is_utf8(reason) || core::has_control_character(reason)) {
    throw core::UsageError("the reason is not one line of UTF-8 without control characters", hint);
  }
  if (reason.size() > k_max_reason) {
    throw core::UsageError(
        fmt::format("the reason has {} bytes, at most {} are kept", reason.size(), k_max_reason),
        hint);
  }
}

void refuse_living(const ResolveOptions& options, const core::Sighting& seen) {
  const std::string name = run_name(options.key);
  const std::string since = seen.run ? human_instant(since_of(*seen.run)) : std::string("-");
  switch (seen.owner) {
  case core::OwnerLife::alive:
    throw core::Error(
        core::Outcome::busy,
        fmt::format("{} is running: {} since {}", name, printable(who_of(seen)), since),
        fmt::format("wait for it, or end it there with: kill -TERM {}",
                    seen.run ? seen.run->pid : 0));
  case core::OwnerLife::orphaned:
    if (!options.force) {
      throw core::Error(
          core::Outcome::busy,
          fmt::format("the oncerun of {} is gone, but what it started still runs: {} since {}",
                      name, printable(who_of(seen)), since),
          "wait for its end, or let resolve --force end it first");
    }
    break;
  case core::OwnerLife::not_provable:
    if (!options.force) {
      throw core::Error(
          core::Outcome::held,
          fmt::format("whether the owner of {} still lives cannot be proven from here: {} since {}",
                      name, printable(who_of(seen)), since),
          "make sure that nothing of it runs there any more, then resolve --force");
    }
    break;
  case core::OwnerLife::settled:
  case core::OwnerLife::dead:
    break;
  }
}

core::Error changed_meanwhile(const core::RunKey& key) {
  return {core::Outcome::busy, run_name(key) + " changed meanwhile, nothing was resolved",
          "look again: oncerun show " + run_arguments(key)};
}

bool same_attempt(const core::Sighting& left, const core::Sighting& right) {
  return left.run && right.run && left.run->run_id == right.run->run_id &&
         left.run->token == right.run->token;
}

/// Ends the tree and looks again: the row may have changed while it was dying, and what is settled
/// must be what was last seen.
core::Sighting without_tree(core::Ledger& ledger, const ResolveOptions& options,
                            const core::Sighting& seen) {
  if (!options.end_tree || !options.end_tree(seen)) {
    throw core::Error(core::Outcome::busy,
                      "what still runs of " + run_name(options.key) +
                          " could not be ended: " + printable(who_of(seen)),
                      "end it by hand on that host, then resolve again");
  }
  core::Sighting now = ledger.look(options.key);
  if (!same_attempt(seen, now)) {
    throw changed_meanwhile(options.key);
  }
  if (now.owner == core::OwnerLife::orphaned || now.owner == core::OwnerLife::alive) {
    throw core::Error(core::Outcome::busy,
                      "something of " + run_name(options.key) +
                          " still runs: " + printable(who_of(now)),
                      "resolve --force once more, or end it by hand");
  }
  return now;
}

std::string consequence(core::RunStatus status) {
  switch (status) {
  case core::RunStatus::ready:
    return "the next start runs it without asking";
  case core::RunStatus::skipped:
    return "no start runs it any more";
  default:
    return "every start leaves it alone";
  }
}

void tell(const ResolveOptions& options, const std::string& from, core::RunStatus to, bool changed,
          Output& output) {
  if (output.json) {
    Json document;
    document["job"] = options.key.job.text();
    document["biz_date"] = options.key.date.label();
    document["from_status"] = text_or_null(from);
    document["to_status"] = core::name_of(to);
    document["changed"] = changed;
    document["by"] = text_or_null(options.by);
    document["reason"] = options.reason;
    print(output, document);
    return;
  }
  const std::string name = run_name(options.key);
  const std::string status(core::name_of(to));
  if (!changed) {
    output.line(name + " already is " + status + ": nothing was changed");
    return;
  }
  output.line(fmt::format("{}: {} -> {}; {}", name, from.empty() ? "no run" : from, status,
                          consequence(to)));
}

} // namespace

int resolve(core::Ledger& ledger, const ResolveOptions& options, const core::StopRequest& stop,
            Output& output) {
  const core::RunStatus to = target_of(options);
  check_reason(options.reason);
  core::Sighting seen = ledger.look(options.key);
  refuse_living(options, seen);
  if (seen.owner == core::OwnerLife::orphaned) {
    seen = without_tree(ledger, options, seen);
  }
  const std::string from = seen.run ? std::string(core::name_of(seen.run->status)) : std::string();
  // An open attempt is worth settling even when its command has marked the row done already.
  if (seen.run && seen.run->status == to && seen.run->end_recorded) {
    tell(options, from, to, false, output);
    return 0;
  }
  const core::Settlement settlement{to,
                                    "resolve",
                                    options.by,
                                    options.reason,
                                    options.period,
                                    options.zone,
                                    options.sortable_labels,
                                    options.evidence};
  if (!ledger.settle(options.key, seen, settlement, stop)) {
    throw changed_meanwhile(options.key);
  }
  tell(options, from, to, true, output);
  return 0;
}

} // namespace oncerun::ops
