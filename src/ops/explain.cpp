#include "ops/explain.hpp"

#include "core/instant.hpp"
#include "core/redact.hpp"
#include "ops/human.hpp"
#include "ops/json.hpp"
#include "ops/standing.hpp"

#include <fmt/format.h>

#include <string>

namespace oncerun::ops {

namespace {

void fact(Output& output, std::string_view name, const std::string& value) {
  output.line(fmt::format("{:<11}{}", name, printable(value)));
}

std::string period_words(const run::Plan& plan) {
  if (plan.period.is_key()) {
    return "key";
  }
  std::string text = "every " + plan.period.text();
  if (plan.zone != nullptr) {
    text += " in " + plan.zone->name();
  }
  return text + ", from " + core::print_rfc3339(plan.slot.start) + " to " +
         core::print_rfc3339(plan.slot.end);
}

std::string run_words(const core::Sighting& seen) {
  const Standing standing = standing_of(seen);
  if (!seen.run) {
    return standing.note.empty() ? std::string("no run yet") : "no run; " + standing.note;
  }
  std::string text = standing.word + " since " + human_instant(since_of(*seen.run));
  const std::string who = who_of(seen);
  text += who.empty() ? "" : ", " + who;
  text += standing.note.empty() ? "" : " (" + standing.note + ")";
  return text;
}

std::string lock_words(const ExplainFacts& facts) {
  if (!facts.found.lock_held) {
    return facts.lock + ", free";
  }
  std::string text = facts.lock + ", held";
  if (const auto& note = facts.found.lock_holder) {
    text += fmt::format(" for {} by {}:{} since {}", note->date, note->host, note->pid,
                        human_instant(note->since));
  }
  return text;
}

/// The decision in the words of what the pipeline does about it.
std::string plan_words(const ExplainFacts& facts) {
  const run::Plan& plan = *facts.plan;
  const core::Decision& decision = facts.found.decision;
  std::string text = decision_words(decision);
  if (decision.action == core::Action::busy && plan.replace) {
    return text + "; with --replace it is stopped first";
  }
  const bool leaves =
      decision.action == core::Action::leave || decision.action == core::Action::hold;
  if (facts.found.other && facts.found.other->run && !leaves) {
    text = "settles " + facts.found.other->run->key.date.label() + " first; then " + text;
  }
  if (facts.found.lock_held && !leaves && decision.action != core::Action::busy) {
    text = (plan.wait.count() > 0 ? "waits for the lock; then " : "is locked out; else ") + text;
  }
  return text;
}

Json json_of_lock(const ExplainFacts& facts) {
  Json lock;
  lock["spec"] = facts.lock;
  lock["held"] = facts.found.lock_held;
  lock["holder"] = nullptr;
  if (const auto& note = facts.found.lock_holder) {
    Json holder;
    holder["job"] = note->job;
    holder["biz_date"] = note->date;
    holder["host"] = note->host;
    holder["pid"] = note->pid;
    holder["since"] = text_or_null(note->since);
    lock["holder"] = std::move(holder);
  }
  return lock;
}

std::string_view name_of(core::Action action) noexcept {
  switch (action) {
  case core::Action::leave:
    return "leave";
  case core::Action::busy:
    return "busy";
  case core::Action::hold:
    return "hold";
  case core::Action::start:
    return "start";
  case core::Action::start_new_generation:
    return "start-new-generation";
  case core::Action::ask:
    return "ask";
  }
  return "hold";
}

Json json_of_facts(const ExplainFacts& facts) {
  const run::Plan& plan = *facts.plan;
  Json document;
  document["run"] = json_of(plan.key, facts.found.seen);
  document["period"] = plan.period.text();
  document["zone"] = plan.zone != nullptr ? Json(plan.zone->name()) : Json(nullptr);
  const bool timed = !plan.period.is_key();
  document["period_start"] = timed ? Json(core::print_rfc3339(plan.slot.start)) : Json(nullptr);
  document["period_end"] = timed ? Json(core::print_rfc3339(plan.slot.end)) : Json(nullptr);
  document["ledger"] = facts.ledger;
  document["state"] = plan.state_path ? Json(*plan.state_path) : Json(nullptr);
  document["lock"] = json_of_lock(facts);
  document["guarantee"] = core::name_of(plan.guarantee);
  document["check"] = plan.check ? Json(core::redact(plan.check->command)) : Json(nullptr);
  document["command"] = Json::array();
  for (const std::string& argument : plan.command) {
    document["command"].push_back(core::redact(argument));
  }
  const auto& other = facts.found.other;
  document["settled_first"] =
      other && other->run ? json_of(other->run->key, *other) : Json(nullptr);
  document["action"] = name_of(facts.found.decision.action);
  document["why"] = core::explain(facts.found.decision.reason);
  document["a_start"] = plan_words(facts);
  return document;
}

} // namespace

int explain(const ExplainFacts& facts, Output& output) {
  if (output.json) {
    print(output, json_of_facts(facts));
    return 0;
  }
  const run::Plan& plan = *facts.plan;
  fact(output, "job", plan.key.job.text());
  fact(output, "date", plan.key.date.label());
  fact(output, "period", period_words(plan));
  fact(output, "ledger", facts.ledger);
  if (plan.state_path) {
    fact(output, "state", *plan.state_path);
  }
  fact(output, "lock", lock_words(facts));
  fact(output, "run", run_words(facts.found.seen));
  if (facts.found.other && facts.found.other->run) {
    fact(output, "other date",
         facts.found.other->run->key.date.label() + ": " + run_words(*facts.found.other));
  }
  fact(output, "guarantee", std::string(core::name_of(plan.guarantee)));
  fact(output, "check", plan.check ? core::redact(plan.check->command) : std::string("none"));
  std::string words;
  for (const std::string& argument : plan.command) {
    words += (words.empty() ? "" : " ") + shell_word(core::redact(argument));
  }
  fact(output, "command", words);
  fact(output, "a start", plan_words(facts));
  return 0;
}

} // namespace oncerun::ops
