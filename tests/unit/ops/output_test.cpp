#include "core/error.hpp"
#include "ops/output.hpp"
#include "support/catch.hpp"
#include "unit/ops/records.hpp"

#include <memory>

namespace oncerun::ops {
namespace {

TEST_CASE("colour is for terminals that show it and people who want it", "[ops][output]") {
  CHECK(colour_wanted(true, nullptr, "xterm"));
  CHECK(colour_wanted(true, "", "xterm")); // set, but empty: as if it were not
  CHECK_FALSE(colour_wanted(true, "1", "xterm"));
  CHECK_FALSE(colour_wanted(true, "0", "xterm")); // any text counts
  CHECK_FALSE(colour_wanted(true, nullptr, "dumb"));
  CHECK_FALSE(colour_wanted(true, nullptr, nullptr));
  CHECK_FALSE(colour_wanted(false, nullptr, "xterm"));
}

TEST_CASE("a tone shows only with colour", "[ops][output]") {
  test::Written written;
  CHECK(written.output.painted("done", Tone::good) == "done");
  written.output.colour = true;
  CHECK(written.output.painted("done", Tone::good) == "\x1b[32mdone\x1b[0m");
  CHECK(written.output.painted("done", Tone::plain) == "done");
  CHECK(written.output.painted("", Tone::bad).empty());
}

TEST_CASE("lines go to stdout, remarks to stderr", "[ops][output]") {
  test::Written written;
  written.output.line("one");
  written.output.remark("two");
  CHECK(written.out == "one\n");
  CHECK(written.err == "two\n");
}

TEST_CASE("output that did not arrive is an error", "[ops][output]") {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> full(std::fopen("/dev/full", "we"),
                                                             &std::fclose);
  REQUIRE(full);
  Output output(full.get(), stderr);
  output.line("lost");
  try {
    output.close();
    FAIL("close() said nothing");
  } catch (const core::Error& error) {
    CHECK(error.outcome() == core::Outcome::unwritable);
    CHECK(std::string(error.what()) == "cannot write to standard output: No space left on device");
  }
}

} // namespace
} // namespace oncerun::ops
