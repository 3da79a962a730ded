#include "ops/human.hpp"
#include "support/catch.hpp"

namespace oncerun::ops {
namespace {

using std::chrono::milliseconds;

TEST_CASE("durations have at most two units and are never rounded up", "[ops][human]") {
  const auto [in, out] = GENERATE(table<long, std::string>({
      {-5, "0s"},
      {0, "0s"},
      {7, "7ms"},
      {99, "99ms"},
      {100, "0.1s"},
      {999, "0.9s"},
      {4'250, "4.2s"},
      {9'999, "9.9s"},
      {10'000, "10s"},
      {59'999, "59s"},
      {60'000, "1m 0s"},
      {192'000, "3m 12s"},
      {3'599'999, "59m 59s"},
      {3'600'000, "1h 0m"},
      {7'500'000, "2h 5m"},
      {86'399'999, "23h 59m"},
      {86'400'000, "1d 0h"},
      {273'600'000, "3d 4h"},
  }));
  CHECK(human_duration(milliseconds(in)) == out);
}

TEST_CASE("instants stay in UTC", "[ops][human]") {
  CHECK(human_instant("2026-10-26T18:00:00.999Z") == "2026-10-26 18:00:00Z");
  CHECK(human_instant("") == "-");
  CHECK(human_instant("soon\n") == "soon\\n");
}

TEST_CASE("a difference needs both instants", "[ops][human]") {
  CHECK(between("2026-10-26T02:00:00.000Z", "2026-10-26T02:03:12.500Z") == milliseconds(192'500));
  CHECK_FALSE(between("", "2026-10-26T02:03:12.500Z"));
  CHECK_FALSE(between("2026-10-26T02:00:00.000Z", ""));
}

TEST_CASE("nothing that steers a terminal gets through", "[ops][human]") {
  CHECK(printable("süd 東") == "süd 東");
  CHECK(printable("a\nb\tc") == "a\\nb\\tc");
  CHECK(printable("\x1b[31mred") == "\\x1b[31mred");
  CHECK(printable("\x7f") == "\\x7f");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\xc2\\x9b2J"); // C1: the one-character CSI
  CHECK(printable("bad \xff\xc3") == "bad \\xff\\xc3");
  CHECK(printable("\xe2\x80\xae"
                  "evil") == "\\u{202e}evil");
  CHECK(printable(std::string_view("\0", 1)) == "\\x00");
}

TEST_CASE("a word can be pasted into a shell", "[ops][human]") {
  CHECK(shell_word("settle") == "settle");
  CHECK(shell_word("2026-10-26T18:00Z") == "2026-10-26T18:00Z");
  CHECK(shell_word("süd") == "süd");
  CHECK(shell_word("two words") == "'two words'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("$HOME") == "'$HOME'");
  CHECK(shell_word("~") == "'~'");
  CHECK(shell_word("") == "''");
  const core::RunKey key{core::JobName::parse("night job"), core::BizDate("2026-10-26")};
  CHECK(run_arguments(key) == "-j 'night job' -d 2026-10-26");
  CHECK(run_name(key) == "night job 2026-10-26");
}

TEST_CASE("width is counted in columns", "[ops][human]") {
  CHECK(display_width("") == 0);
  CHECK(display_width("settle") == 6);
  CHECK(display_width("süd") == 3);
  CHECK(display_width("u\xcc\x88") == 1); // u and a combining diaeresis
  CHECK(display_width("東京") == 4);
  CHECK(display_width("한국") == 4);
  CHECK(display_width("😀") == 2);
}

TEST_CASE("a cut never splits a character nor exceeds the width", "[ops][human]") {
  CHECK(cut_to_width("settle", 6) == "settle");
  CHECK(cut_to_width("settle", 5) == "sett…");
  CHECK(cut_to_width("settle", 1) == "…");
  CHECK(cut_to_width("settle", 0).empty());
  CHECK(cut_to_width("süddeutsch", 4) == "süd…");
  CHECK(cut_to_width("東京都", 4) == "東…"); // the second would need columns 3 and 4
  CHECK(cut_to_width("東京都", 6) == "東京都");
}

TEST_CASE("one run, two runs", "[ops][human]") {
  CHECK(counted(1, "run") == "1 run");
  CHECK(counted(0, "run") == "0 runs");
  CHECK(counted(2, "run") == "2 runs");
}

} // namespace
} // namespace oncerun::ops
