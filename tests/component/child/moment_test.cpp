#include "supervised.hpp"
#include "support/catch.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace oncerun {

using test::Setting;
using test::shell;
using test::Supervised;

TEST_CASE("what can be done while the command runs is done once, and only if it runs that long") {
  Setting setting;
  // The parent of this very function is oncerun's place; its stdout is the command's.
  setting.after_a_moment = [] { REQUIRE(::write(STDOUT_FILENO, "moment\n", 7) == 7); };
  SECTION("it runs that long") {
    Supervised supervised(shell("echo started; sleep 0.3; kill -CONT $PPID; sleep 0.1; echo ended"),
                          setting);
    CHECK(supervised.line() == "started");
    CHECK(supervised.line() == "moment");
    CHECK(supervised.line() == "ended");
    CHECK(supervised.ending().exit_code == 0);
    CHECK(supervised.rest().empty());
  }
  SECTION("it has ended before anybody waits") {
    setting.after_start = [] {
      siginfo_t info{};
      REQUIRE(::waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) == 0);
    };
    Supervised supervised({"true"}, setting);
    CHECK(supervised.ending().exit_code == 0);
    CHECK(supervised.rest().empty());
  }
}

} // namespace oncerun
