#include "core/error.hpp"
#include "core/outcome.hpp"
#include "support/catch.hpp"

#include <cerrno>
#include <set>
#include <string>
#include <vector>

namespace core = oncerun::core;
using core::Outcome;

namespace {

struct Row {
  Outcome outcome;
  std::string name;
  int code;
};

/// The design's section 6.
const std::vector<Row> k_rows{
    {Outcome::done, "done", 0},
    {Outcome::busy, "busy", 75},
    {Outcome::blocked, "blocked", 76},
    {Outcome::held, "held", 80},
    {Outcome::unmet, "unmet", 83},
    {Outcome::unavailable, "unavailable", 69},
    {Outcome::unwritable, "unwritable", 73},
    {Outcome::usage, "usage", 64},
    {Outcome::config, "config", 78},
    {Outcome::internal, "internal", 70},
    {Outcome::unrecorded, "unrecorded", 81},
    {Outcome::lost, "lost", 82},
    {Outcome::unconfirmed, "unconfirmed", 84},
    {Outcome::timeout, "timeout", 124},
    {Outcome::not_executable, "not-executable", 126},
    {Outcome::not_found, "not-found", 127},
};

} // namespace

TEST_CASE("outcomes have the documented names and codes") {
  for (const Row& row : k_rows) {
    CAPTURE(row.name);
    CHECK(core::row_of(row.outcome).outcome == row.outcome);
    CHECK(core::row_of(row.outcome).code == row.code);
    CHECK(core::name_of(row.outcome) == row.name);
    CHECK(core::outcome_named(row.name) == row.outcome);
  }
  CHECK(core::row_of(Outcome::command).outcome == Outcome::command);
  CHECK(core::row_of(Outcome::signalled).outcome == Outcome::signalled);
}

TEST_CASE("only an outcome with a code of its own can be named") {
  CHECK_FALSE(core::outcome_named("command"));
  CHECK_FALSE(core::outcome_named("signalled"));
  CHECK_FALSE(core::outcome_named("Done"));
  CHECK_FALSE(core::outcome_named(""));
}

TEST_CASE("no two outcomes share a name or a code") {
  std::set<std::string> names;
  std::set<int> codes;
  for (const core::OutcomeRow& row : core::outcome_table()) {
    CHECK(names.insert(std::string(row.name)).second);
    CHECK((row.code < 0 || codes.insert(row.code).second));
    CHECK_FALSE(row.meaning.empty());
  }
  CHECK(names.size() == k_rows.size() + 2);
}

TEST_CASE("an error about a system call names the file and the reason") {
  const core::Error error =
      core::system_error(Outcome::unwritable, "open", "/var/lib/x", EACCES, "become its owner");
  CHECK(std::string(error.what()) == "cannot open /var/lib/x: Permission denied");
  CHECK(error.outcome() == Outcome::unwritable);
  CHECK(error.hint() == "become its owner");
  CHECK(core::Interrupted(15).signal() == 15);
}
