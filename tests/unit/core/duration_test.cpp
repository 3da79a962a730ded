#include "core/duration.hpp"
#include "refusal.hpp"

using namespace std::chrono_literals;
using oncerun::core::parse_duration;
using oncerun::core::print_duration;
using oncerun::test::refusal_of;

namespace {

struct Row {
  const char* text;
  std::chrono::milliseconds value;
};

} // namespace

TEST_CASE("durations are read") {
  for (const Row& row :
       {Row{"90", 90s}, Row{"0", 0s}, Row{"0s", 0s}, Row{"30s", 30s}, Row{"5m", 5min},
        Row{"2h", 2h}, Row{"1d", 24h}, Row{"1h30m", 90min}, Row{"0.3s", 300ms}, Row{"0.3", 300ms},
        Row{"1.5h", 90min}, Row{"0.001s", 1ms}, Row{"1m0.25s", 60'250ms}, Row{"007s", 7s},
        Row{"1d2h3m4s", 24h + 2h + 3min + 4s}, Row{"90m", 90min}, Row{"36500d", 24h * 36500}}) {
    CAPTURE(row.text);
    CHECK(parse_duration(row.text, "--wait") == row.value);
  }
}

TEST_CASE("what is no duration is refused") {
  for (const char* text : {"",
                           " ",
                           "s",
                           "-1",
                           "-1s",
                           "+1s",
                           "1 s",
                           " 1s",
                           "1s ",
                           "1x",
                           "1ms",
                           "1S",
                           "1s1s",
                           "1m1h",
                           "1s1m",
                           "1h30",
                           "1m0.5",
                           ".5s",
                           "5.s",
                           "1.s",
                           "1.0005s",
                           "0.5h30m",
                           "1..5s",
                           "1,5s",
                           "1e3",
                           "0x10",
                           "36501d",
                           "36500d1s",
                           "3153600001",
                           "99999999999999999999",
                           "9223372036854775807s",
                           "106751991167301d",
                           "\xC2\xB2s"}) {
    CAPTURE(text);
    const auto refusal = refusal_of([text] { (void)parse_duration(text, "--check-timeout"); });
    CHECK(refusal.says("--check-timeout: "));
    CHECK(refusal.says("is not a duration"));
    CHECK(refusal.hints("1h30m"));
  }
}

TEST_CASE("a message stays one line whatever was given") {
  const auto refusal = refusal_of([] { (void)parse_duration("1\n2", "--wait"); });
  CHECK(refusal.message == "--wait: \"1\\x0a2\" is not a duration");
}

TEST_CASE("durations are printed in their compact form") {
  for (const Row& row : {Row{"0s", 0s}, Row{"0.3s", 300ms}, Row{"1m30s", 90s}, Row{"1h30m", 90min},
                         Row{"1d", 24h}, Row{"0.001s", 1ms}, Row{"1m0.25s", 60'250ms},
                         Row{"2h", 2h}, Row{"1d0.5s", 24h + 500ms}, Row{"-1m30s", -90s}}) {
    CAPTURE(row.text);
    CHECK(print_duration(row.value) == row.text);
  }
}

TEST_CASE("a printed duration is read back") {
  for (std::int64_t value = 1; value < 3'153'600'000'000; value = value * 7 / 3 + 1) {
    const std::chrono::milliseconds duration(value);
    CAPTURE(value);
    CHECK(parse_duration(print_duration(duration), "--wait") == duration);
  }
}
