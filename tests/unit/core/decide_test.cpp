#include "core/decide.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <vector>

namespace core = oncerun::core;
using core::Action;
using core::AfterCheck;
using core::CheckAnswer;
using core::Decision;
using core::Guarantee;
using core::OwnerLife;
using core::Reason;
using core::RowState;
using core::RunStatus;
using core::Situation;

namespace {

constexpr std::array k_rows{RowState::none,    RowState::done,         RowState::skipped,
                            RowState::ready,   RowState::failed,       RowState::never_started,
                            RowState::unknown, RowState::late_success, RowState::pending};
constexpr std::array k_owners{OwnerLife::settled, OwnerLife::alive, OwnerLife::orphaned,
                              OwnerLife::dead, OwnerLife::not_provable};
constexpr std::array k_guarantees{Guarantee::cautious, Guarantee::at_least_once,
                                  Guarantee::at_most_once};
constexpr std::array k_both{false, true};

/// One line of the table in the design's section 5. An empty list and an absent value match all.
struct Line {
  std::vector<RowState> rows;
  std::vector<OwnerLife> owners;
  std::optional<bool> floor;
  std::vector<Guarantee> guarantees;
  std::optional<bool> check;
  std::optional<bool> first;
  std::optional<bool> rerun;
  Decision decision;
};

const std::optional<bool> any;
const std::optional<bool> yes = true;
const std::optional<bool> no = false;

// clang-format off
const std::vector<Line> k_table{
  // row                        owner                    floor guarantee      check first rerun
  {{},                          {OwnerLife::alive},        any, {},            any, any, any, {Action::busy, Reason::owner_alive}},
  {{},                          {OwnerLife::orphaned},     any, {},            any, any, any, {Action::busy, Reason::owner_orphaned}},
  {{},                          {OwnerLife::not_provable}, any, {},            any, any, any, {Action::hold, Reason::owner_not_provable}},
  {{RowState::done},            {},                        any, {},            any, any, no,  {Action::leave, Reason::already_done}},
  {{RowState::skipped},         {},                        any, {},            any, any, no,  {Action::leave, Reason::already_skipped}},
  {{RowState::done,
    RowState::skipped},         {},                        any, {},            any, any, yes, {Action::start_new_generation, Reason::rerun_asked}},
  {{RowState::none},            {},                        yes, {},            any, any, any, {Action::hold, Reason::below_floor}},
  {{RowState::none,
    RowState::never_started},   {},                        any, {},            any, yes, any, {Action::ask, Reason::check_first_asked}},
  {{RowState::none},            {},                        any, {},            any, no,  any, {Action::start, Reason::first_time}},
  {{RowState::never_started},   {},                        any, {},            any, no,  any, {Action::start, Reason::never_started}},
  {{RowState::ready},           {},                        any, {},            any, any, any, {Action::start, Reason::made_ready}},
  {{RowState::failed},          {},                        any, {},            yes, any, any, {Action::ask, Reason::failed_before}},
  {{RowState::failed},          {},                        any, {Guarantee::at_most_once}, no, any, any, {Action::hold, Reason::failed_before}},
  {{RowState::failed},          {},                        any, {},            no,  any, any, {Action::start, Reason::failed_before}},
  {{RowState::late_success},    {},                        any, {},            yes, any, any, {Action::ask, Reason::late_success_noted}},
  {{RowState::late_success},    {},                        any, {},            no,  any, any, {Action::hold, Reason::late_success_noted}},
  {{RowState::unknown,
    RowState::pending},         {},                        any, {},            yes, any, any, {Action::ask, Reason::in_doubt}},
  {{RowState::unknown,
    RowState::pending},         {},                        any, {Guarantee::at_least_once}, no, any, any, {Action::start, Reason::in_doubt}},
  {{RowState::unknown,
    RowState::pending},         {},                        any, {},            no,  any, any, {Action::hold, Reason::in_doubt}},
};
// clang-format on

template<typename Value>
bool matches(const std::vector<Value>& list, Value value) {
  return list.empty() || std::ranges::find(list, value) != list.end();
}

bool matches(const std::optional<bool>& wanted, bool value) {
  return !wanted || *wanted == value;
}

bool matches(const Line& line, const Situation& s) {
  return matches(line.rows, s.row) && matches(line.owners, s.owner) &&
         matches(line.floor, s.at_or_below_floor) && matches(line.guarantees, s.guarantee) &&
         matches(line.check, s.has_check) && matches(line.first, s.check_first) &&
         matches(line.rerun, s.rerun);
}

std::vector<Situation> every_situation() {
  std::vector<Situation> all;
  for (const RowState row : k_rows) {
    for (const OwnerLife owner : k_owners) {
      for (const Guarantee guarantee : k_guarantees) {
        for (const bool floor : k_both) {
          for (const bool check : k_both) {
            for (const bool first : k_both) {
              for (const bool rerun : k_both) {
                all.push_back({row, owner, floor, guarantee, check, first, rerun});
              }
            }
          }
        }
      }
    }
  }
  return all;
}

/// A row whose newest attempt has a recorded end.
Situation at_rest(RowState row, Guarantee guarantee = Guarantee::cautious, bool check = false) {
  Situation situation;
  situation.row = row;
  situation.guarantee = guarantee;
  situation.has_check = check;
  return situation;
}

} // namespace

TEST_CASE("every situation is decided as the table says, first match wins") {
  const std::vector<Situation> all = every_situation();
  REQUIRE(all.size() == 9 * 5 * 3 * 2 * 2 * 2 * 2);
  std::set<const Line*> used;
  for (const Situation& s : all) {
    const auto line =
        std::ranges::find_if(k_table, [&s](const Line& each) { return matches(each, s); });
    REQUIRE(line != k_table.end());
    used.insert(&*line);
    const Decision decision = core::decide(s);
    if (decision != line->decision) {
      INFO("row " << int(s.row) << " owner " << core::name_of(s.owner) << " floor "
                  << s.at_or_below_floor << " guarantee " << core::name_of(s.guarantee) << " check "
                  << s.has_check << " first " << s.check_first << " rerun " << s.rerun);
      CHECK(int(decision.action) == int(line->decision.action));
      CHECK(int(decision.reason) == int(line->decision.reason));
    }
  }
  CHECK(used.size() == k_table.size());
}

TEST_CASE("nothing starts beside an owner that may live") {
  for (Situation s : every_situation()) {
    const bool may_live = s.owner != OwnerLife::settled && s.owner != OwnerLife::dead;
    if (may_live) {
      const Action action = core::decide(s).action;
      REQUIRE((action == Action::busy || action == Action::hold));
    }
  }
}

TEST_CASE("what guards a payment, row by row") {
  SECTION("a first start starts") {
    CHECK(core::decide(at_rest(RowState::none)) == Decision{Action::start, Reason::first_time});
  }
  SECTION("a done date is left alone, also when its owner died after marking it") {
    Situation s = at_rest(RowState::done, Guarantee::at_least_once);
    CHECK(core::decide(s).action == Action::leave);
    s.owner = OwnerLife::dead;
    CHECK(core::decide(s).action == Action::leave);
  }
  SECTION("--rerun never runs beside a live owner") {
    Situation s = at_rest(RowState::done);
    s.rerun = true;
    CHECK(core::decide(s).action == Action::start_new_generation);
    s.owner = OwnerLife::alive;
    CHECK(core::decide(s).action == Action::busy);
  }
  SECTION("--rerun says nothing about a doubt") {
    Situation s = at_rest(RowState::unknown);
    s.rerun = true;
    CHECK(core::decide(s).action == Action::hold);
  }
  SECTION("a crash holds by default and under at-most-once") {
    Situation s = at_rest(RowState::pending);
    s.owner = OwnerLife::dead;
    CHECK(core::decide(s) == Decision{Action::hold, Reason::in_doubt});
    s.guarantee = Guarantee::at_most_once;
    CHECK(core::decide(s).action == Action::hold);
    s.guarantee = Guarantee::at_least_once;
    CHECK(core::decide(s).action == Action::start);
  }
  SECTION("a check is asked whatever the guarantee") {
    for (const Guarantee guarantee : k_guarantees) {
      CHECK(core::decide(at_rest(RowState::unknown, guarantee, true)).action == Action::ask);
      CHECK(core::decide(at_rest(RowState::failed, guarantee, true)).action == Action::ask);
    }
  }
  SECTION("no check is asked about an owner that cannot be judged, not even by at-least-once") {
    Situation s = at_rest(RowState::pending, Guarantee::at_least_once, true);
    s.owner = OwnerLife::not_provable;
    CHECK(core::decide(s) == Decision{Action::hold, Reason::owner_not_provable});
  }
  SECTION("a plain failure starts again, but not under at-most-once") {
    CHECK(core::decide(at_rest(RowState::failed)).action == Action::start);
    CHECK(core::decide(at_rest(RowState::failed, Guarantee::at_most_once)).action == Action::hold);
  }
  SECTION("what never started starts under every guarantee") {
    for (const Guarantee guarantee : k_guarantees) {
      CHECK(core::decide(at_rest(RowState::never_started, guarantee)).action == Action::start);
    }
  }
  SECTION("a late success is never a free rerun") {
    CHECK(core::decide(at_rest(RowState::late_success, Guarantee::at_least_once)).action ==
          Action::hold);
  }
  SECTION("a date at or below the floor is held, and a row above all floors counts more") {
    Situation s = at_rest(RowState::none, Guarantee::at_least_once);
    s.at_or_below_floor = true;
    CHECK(core::decide(s).action == Action::hold);
    s.row = RowState::ready;
    CHECK(core::decide(s).action == Action::start);
  }
}

TEST_CASE("every answer of the check, in every state, with and without an absent before") {
  for (const RowState row : k_rows) {
    const bool doubt =
        row == RowState::unknown || row == RowState::pending || row == RowState::late_success;
    for (const bool before : k_both) {
      CAPTURE(int(row), before);
      CHECK(core::after_check(row, CheckAnswer::present, before) == AfterCheck::mark_done);
      CHECK(core::after_check(row, CheckAnswer::unclear, before) == AfterCheck::hold);
      // A request of the dead owner may still be on its way: absent is believed the second time.
      const AfterCheck absent = doubt && !before ? AfterCheck::ask_again : AfterCheck::start;
      CHECK(core::after_check(row, CheckAnswer::absent, before) == absent);
    }
  }
}

TEST_CASE("a row's status reads as a state to decide on") {
  for (const bool never : k_both) {
    for (const bool late : k_both) {
      CAPTURE(never, late);
      CHECK(core::row_state(RunStatus::pending, never, late) == RowState::pending);
      CHECK(core::row_state(RunStatus::done, never, late) == RowState::done);
      CHECK(core::row_state(RunStatus::ready, never, late) == RowState::ready);
      CHECK(core::row_state(RunStatus::skipped, never, late) == RowState::skipped);
      CHECK(core::row_state(RunStatus::failed, never, late) ==
            (never ? RowState::never_started : RowState::failed));
      CHECK(core::row_state(RunStatus::unknown, never, late) ==
            (late ? RowState::late_success : RowState::unknown));
    }
  }
}

TEST_CASE("names are those of the ledger and the command line") {
  CHECK(core::name_of(RunStatus::pending) == "pending");
  CHECK(core::name_of(RunStatus::done) == "done");
  CHECK(core::name_of(RunStatus::failed) == "failed");
  CHECK(core::name_of(RunStatus::unknown) == "unknown");
  CHECK(core::name_of(RunStatus::ready) == "ready");
  CHECK(core::name_of(RunStatus::skipped) == "skipped");
  CHECK(core::name_of(Guarantee::cautious) == "cautious");
  CHECK(core::name_of(Guarantee::at_least_once) == "at-least-once");
  CHECK(core::name_of(Guarantee::at_most_once) == "at-most-once");
  CHECK(core::name_of(OwnerLife::settled) == "settled");
  CHECK(core::name_of(OwnerLife::alive) == "alive");
  CHECK(core::name_of(OwnerLife::orphaned) == "orphaned");
  CHECK(core::name_of(OwnerLife::dead) == "dead");
  CHECK(core::name_of(OwnerLife::not_provable) == "not-provable");
}

TEST_CASE("every reason is explained in its own words") {
  std::set<std::string_view> texts;
  for (int i = 0; i <= int(Reason::evidence_unreadable); ++i) {
    const std::string_view text = core::explain(static_cast<Reason>(i));
    CAPTURE(i);
    CHECK_FALSE(text.empty());
    CHECK(texts.insert(text).second);
  }
}
