#include "core/exit_codes.hpp"
#include "refusal.hpp"

#include <string>

using namespace oncerun::core;
using oncerun::test::refusal_of;

namespace {

ExitCodes of(std::initializer_list<std::size_t> codes) {
  ExitCodes set;
  for (const std::size_t code : codes) {
    set.set(code);
  }
  return set;
}

} // namespace

TEST_CASE("lists of exit codes are read") {
  CHECK(parse_exit_codes("80,81,82,84,124", "--unknown-exit") == of({80, 81, 82, 84, 124}));
  CHECK(parse_exit_codes(k_default_unknown_exit, "--unknown-exit") == of({80, 81, 82, 84, 124}));
  CHECK(parse_exit_codes("40-45", "--unknown-exit") == of({40, 41, 42, 43, 44, 45}));
  CHECK(parse_exit_codes("1,255,7-7", "--unknown-exit") == of({1, 7, 255}));
  CHECK(parse_exit_codes("3,3", "--unknown-exit") == of({3}));
  CHECK(parse_exit_codes("", "--unknown-exit").none());
  CHECK(parse_exit_codes("1-255", "--unknown-exit").count() == 255);
}

TEST_CASE("what is no list of exit codes is refused") {
  for (const char* text : {"0", "256", "-1", "1,", ",1", ",", "1,,2", "1 2", "1, 2", "x", "5-3",
                           "1-", "-", "1-2-3", "0-5", "250-256", "0x10", "99999999999999999999"}) {
    CAPTURE(text);
    const auto refusal = refusal_of([text] { (void)parse_exit_codes(text, "--unknown-exit"); });
    CHECK(refusal.says("--unknown-exit: "));
    CHECK(refusal.hints("1 to 255"));
  }
}

TEST_CASE("lists of exit codes are printed in short") {
  CHECK(print_exit_codes({}) == "");
  CHECK(print_exit_codes(of({80, 81, 82, 84, 124})) == "80-82,84,124");
  CHECK(print_exit_codes(of({1, 2, 255})) == "1,2,255");
  CHECK(print_exit_codes(parse_exit_codes("1-255", "")) == "1-255");
  const ExitCodes codes = of({1, 3, 4, 5, 9, 10, 200});
  CHECK(parse_exit_codes(print_exit_codes(codes), "") == codes);
}

TEST_CASE("one exit code is read") {
  CHECK(parse_exit_code("0", "--check-present") == 0);
  CHECK(parse_exit_code("255", "--check-absent", 1) == 255);
  CHECK(refusal_of([] { (void)parse_exit_code("0", "--check-absent", 1); }).hints("from 1 to 255"));
  for (const char* text : {"", "256", "-1", "+1", " 1", "1 ", "ten"}) {
    CAPTURE(text);
    CHECK(refusal_of([text] {
            (void)parse_exit_code(text, "--check-absent");
          }).says("--check-absent: "));
  }
}

TEST_CASE("an outcome can be given another exit code") {
  CHECK(parse_exit_mapping("busy=0") == std::pair(Outcome::busy, 0));
  CHECK(parse_exit_mapping("not-found=255") == std::pair(Outcome::not_found, 255));
  CHECK(parse_exit_mapping("done=3") == std::pair(Outcome::done, 3));
}

TEST_CASE("what maps no outcome to no code is refused") {
  const auto refused = [](const char* text) {
    return refusal_of([text] { (void)parse_exit_mapping(text); });
  };
  CHECK(refused("busy").says("is not NAME=CODE"));
  CHECK(refused("").says("is not NAME=CODE"));
  CHECK(refused("bsuy=0").hints("did you mean busy?"));
  CHECK(refused("command=0").says("names no outcome"));
  CHECK(refused("signalled=0").says("names no outcome"));
  CHECK(refused("=0").hints("blocked"));
  CHECK(refused("zzzz=0").hints("unrecorded"));
  CHECK(refused("busy=").says("is not an exit code"));
  CHECK(refused("busy=256").hints("0 to 255"));
  CHECK(refused("busy=1=2").says("is not an exit code"));
}
