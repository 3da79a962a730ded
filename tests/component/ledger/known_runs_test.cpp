#include "ledger/known_runs.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

#include <filesystem>
#include <fstream>

namespace oncerun {
namespace {

core::RunKey run_of(int number) {
  return {core::JobName::parse("settle"), core::BizDate("order-" + std::to_string(number))};
}

} // namespace

TEST_CASE("what was added may be known, and most of the rest is not") {
  const test::Scratch folder;
  const std::string path = folder / "life";
  std::ofstream(path) << "text in front";
  const ledger::KnownRuns known(path);
  known.begin();
  constexpr int k_added = 20'000;
  for (int i = 0; i < k_added; ++i) {
    known.add(run_of(i));
  }
  int missed = 0;
  int mistaken = 0;
  for (int i = 0; i < k_added; ++i) {
    missed += known.may_know(run_of(i)) ? 0 : 1;
    mistaken += known.may_know(run_of(k_added + i)) ? 1 : 0;
  }
  CHECK(missed == 0);
  CHECK(mistaken < k_added / 50);
  CHECK(test::read_text(path).starts_with("text in front"));
  CHECK(std::filesystem::file_size(path) <= 8192 + 65536);
}

TEST_CASE("another job's run of the same date is another run") {
  const test::Scratch folder;
  const std::string path = folder / "life";
  std::ofstream(path) << "x";
  const ledger::KnownRuns known(path);
  known.begin();
  known.add({core::JobName::parse("a"), core::BizDate("b-1")});
  CHECK(known.may_know({core::JobName::parse("a"), core::BizDate("b-1")}));
  CHECK_FALSE(known.may_know({core::JobName::parse("ab"), core::BizDate("-1")}));
}

TEST_CASE("without a mark everything may be known") {
  const test::Scratch folder;
  const std::string path = folder / "life";
  CHECK(ledger::KnownRuns(path).may_know(run_of(1))); // no file
  std::ofstream(path) << "a liveness file of before";
  const ledger::KnownRuns known(path);
  CHECK(known.may_know(run_of(1)));
  known.add(run_of(2)); // and adding alone makes no mark
  CHECK(known.may_know(run_of(1)));
}

} // namespace oncerun
