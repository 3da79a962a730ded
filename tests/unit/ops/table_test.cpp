#include "ops/table.hpp"
#include "support/catch.hpp"
#include "unit/ops/records.hpp"

namespace oncerun::ops {
namespace {

Table sample() {
  Table table({"JOB", "STATUS", "NOTE"});
  table.add({"settle", {"done", Tone::good}, ""});
  table.add({"東京", {"unknown", Tone::doubt}, "its owner is gone"});
  table.add({"u\xcc\x88", "failed", "exit 3"});
  return table;
}

TEST_CASE("columns are aligned by what a terminal shows", "[ops][table]") {
  test::Written written;
  sample().print(written.output);
  CHECK(written.out == "JOB     STATUS   NOTE\n"
                       "settle  done     -\n"
                       "東京    unknown  its owner is gone\n"
                       "u\xcc\x88       failed   exit 3\n");
}

TEST_CASE("colour does not move columns", "[ops][table]") {
  test::Written written;
  written.output.colour = true;
  sample().print(written.output);
  CHECK(written.out == "\x1b[1mJOB\x1b[0m     \x1b[1mSTATUS\x1b[0m   \x1b[1mNOTE\x1b[0m\n"
                       "settle  \x1b[32mdone\x1b[0m     -\n"
                       "東京    \x1b[33munknown\x1b[0m  its owner is gone\n"
                       "u\xcc\x88       failed   exit 3\n");
}

TEST_CASE("on a terminal the widest column gives way", "[ops][table]") {
  test::Written written;
  written.output.terminal = true;
  written.output.width = 26; // 6 + 2 + 7 + 2 leave 9 of 17 for the note
  sample().print(written.output);
  CHECK(written.out == "JOB     STATUS   NOTE\n"
                       "settle  done     -\n"
                       "東京    unknown  its owne…\n"
                       "u\xcc\x88       failed   exit 3\n");
}

TEST_CASE("no line is longer than a narrow terminal", "[ops][table]") {
  test::Written written;
  written.output.terminal = true;
  written.output.width = 10;
  sample().print(written.output);
  CHECK(written.out == "JOB     S…\n"
                       "settle  d…\n"
                       "東京    u…\n"
                       "u\xcc\x88       f…\n");
}

TEST_CASE("elsewhere nothing is cut", "[ops][table]") {
  test::Written written;
  written.output.width = 10;
  sample().print(written.output);
  CHECK(written.out.find("its owner is gone\n") != std::string::npos);
}

TEST_CASE("control characters are never printed raw", "[ops][table]") {
  test::Written written;
  Table table({"NOTE"});
  table.add({"a\x1b[2J\nb"});
  table.print(written.output);
  CHECK(written.out == "NOTE\n"
                       "a\\x1b[2J\\nb\n");
}

TEST_CASE("a row without all cells is filled up", "[ops][table]") {
  test::Written written;
  Table table({"A", "B"});
  CHECK(table.empty());
  table.add({"x"});
  CHECK_FALSE(table.empty());
  table.print(written.output);
  CHECK(written.out == "A  B\n"
                       "x  -\n");
}

} // namespace
} // namespace oncerun::ops
