#include "ops/check.hpp"

#include "ops/human.hpp"
#include "ops/json.hpp"
#include "ops/standing.hpp"

#include <string>
#include <string_view>

namespace oncerun::ops {

namespace {

std::string_view name_of(core::CheckAnswer answer) noexcept {
  switch (answer) {
  case core::CheckAnswer::present:
    return "present";
  case core::CheckAnswer::absent:
    return "absent";
  case core::CheckAnswer::unclear:
    break;
  }
  return "unclear";
}

std::string_view meaning_of(core::CheckAnswer answer) noexcept {
  switch (answer) {
  case core::CheckAnswer::present:
    return "it happened";
  case core::CheckAnswer::absent:
    return "it did not happen";
  case core::CheckAnswer::unclear:
    break;
  }
  return "no answer that can be relied on";
}

int exit_code_of(core::CheckAnswer answer) noexcept {
  switch (answer) {
  case core::CheckAnswer::present:
    return k_check_present;
  case core::CheckAnswer::absent:
    return k_check_absent;
  case core::CheckAnswer::unclear:
    break;
  }
  return k_check_unclear;
}

/// What a start with this check would do about the run as it stands.
std::string conclusion(const core::Sighting& seen, const CheckOptions& options,
                       core::CheckAnswer answer) {
  core::Situation situation;
  situation.row = seen.row();
  situation.owner = seen.owner;
  situation.at_or_below_floor = seen.at_or_below_floor;
  situation.guarantee = options.guarantee;
  situation.has_check = true;
  situation.check_first = options.check_first;
  const core::Decision decision = core::decide(situation);
  if (decision.action != core::Action::ask) {
    return "does not ask it and " + decision_words(decision);
  }
  switch (core::after_check(situation.row, answer, false)) {
  case core::AfterCheck::mark_done:
    return "marks the run done and does not start the command";
  case core::AfterCheck::start:
    return "starts the command";
  case core::AfterCheck::ask_again:
    return "asks again after --check-settle and starts the command if it still says absent";
  case core::AfterCheck::hold:
    break;
  }
  return "holds (exit 80): nothing starts, nothing changes";
}

} // namespace

int check(core::Ledger& ledger, const CheckOptions& options, Output& output) {
  const core::Sighting seen = ledger.look(options.key);
  const CheckReply reply = options.ask(seen);
  const std::string next = conclusion(seen, options, reply.answer);
  const Standing standing = standing_of(seen);
  if (output.json) {
    Json document;
    document["job"] = options.key.job.text();
    document["biz_date"] = options.key.date.label();
    document["reads_as"] = standing.word;
    document["answer"] = name_of(reply.answer);
    document["detail"] = text_or_null(reply.detail);
    document["next_start"] = next;
    print(output, document);
  } else {
    output.line(run_name(options.key) + ": " +
                (seen.run ? standing.word : std::string("no run yet")));
    output.line("the check says " + std::string(name_of(reply.answer)) +
                (reply.detail.empty() ? "" : " (" + printable(reply.detail) + ")") + ": " +
                std::string(meaning_of(reply.answer)));
    output.line("a start with this check " + next);
  }
  return exit_code_of(reply.answer);
}

} // namespace oncerun::ops
