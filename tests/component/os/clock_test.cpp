#include "os/clock.hpp"
#include "support/catch.hpp"

#include <poll.h>

#include <cstdlib>
#include <ctime>
#include <limits>
#include <string>

using namespace oncerun;
using std::chrono::milliseconds;

TEST_CASE("an instant is UTC as ISO 8601 with milliseconds") {
  const std::time_t before = std::time(nullptr);
  const std::string text = os::now_text();
  const std::time_t after = std::time(nullptr);
  REQUIRE(text.size() == 24);
  CHECK(text[10] == 'T');
  CHECK(text[19] == '.');
  CHECK(text[23] == 'Z');
  // Read back by libc, which had no part in writing it.
  std::tm parts{};
  REQUIRE(::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == text.c_str() + 19);
  const std::time_t seconds = ::timegm(&parts);
  CHECK(seconds >= before);
  CHECK(seconds <= after);
}

TEST_CASE("a deadline passes when its time is over, and not before") {
  const os::Deadline now = os::Deadline::after(milliseconds(0));
  CHECK(now.passed());
  CHECK(now.left() == milliseconds(0));
  CHECK(now.poll_timeout() == 0);
  CHECK(os::Deadline::after(milliseconds(-5)).passed());

  const auto begin = std::chrono::steady_clock::now();
  const os::Deadline soon = os::Deadline::after(milliseconds(30));
  CHECK_FALSE(soon.passed());
  CHECK(soon.left() <= milliseconds(30));
  CHECK(soon.poll_timeout() > 0);
  while (!soon.passed()) {
    ::poll(nullptr, 0, soon.poll_timeout());
  }
  CHECK(std::chrono::steady_clock::now() - begin >= milliseconds(30));
}

TEST_CASE("endless and very long deadlines neither pass nor overflow") {
  const os::Deadline never = os::Deadline::never();
  CHECK_FALSE(never.passed());
  CHECK(never.left() == milliseconds::max());
  CHECK(never.poll_timeout() == -1);
  CHECK_FALSE(os::Deadline::after(milliseconds::max()).passed());
  const os::Deadline decades = os::Deadline::after(std::chrono::hours(24 * 365 * 50));
  CHECK_FALSE(decades.passed());
  CHECK(decades.poll_timeout() == std::numeric_limits<int>::max());
}
