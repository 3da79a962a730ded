#include "os/host.hpp"
#include "support/catch.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <string>

using namespace oncerun;

namespace {

std::string first_line(const char* path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

} // namespace

TEST_CASE("a process knows where it is") {
  const core::OwnerIdentity self = os::this_process();
  char name[256] = {};
  REQUIRE(::gethostname(name, sizeof name - 1) == 0);
  CHECK(self.host == name);
  CHECK(self.pid == ::getpid());
  CHECK(self.boot_id == first_line("/proc/sys/kernel/random/boot_id"));
  CHECK(self.boot_id.size() == 36);
  const std::string machine = first_line("/etc/machine-id");
  CHECK(self.machine_id == (machine.size() == 32 ? machine : ""));
  // The link's text carries the inode: "pid:[4026531836]".
  char link[64] = {};
  REQUIRE(::readlink("/proc/self/ns/pid", link, sizeof link - 1) > 0);
  CHECK("pid:[" + std::to_string(self.pid_namespace) + "]" == link);
  CHECK(self.life_id.empty());
}

TEST_CASE("random UUIDs have version 4 and do not repeat") {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string uuid = os::random_uuid();
    REQUIRE(uuid.size() == 36);
    CHECK(uuid[8] == '-');
    CHECK(uuid[13] == '-');
    CHECK(uuid[18] == '-');
    CHECK(uuid[23] == '-');
    CHECK(uuid[14] == '4');
    CHECK(std::string("89ab").find(uuid[19]) != std::string::npos);
    CHECK(uuid.find_first_not_of("0123456789abcdef-") == std::string::npos);
    seen.insert(uuid);
  }
  CHECK(seen.size() == 1000);
}

TEST_CASE("an operator is named with the host") {
  char name[256] = {};
  REQUIRE(::gethostname(name, sizeof name - 1) == 0);
  const std::string who = os::who_am_i();
  const std::string user = ::getuid() == 0 ? "root" : who.substr(0, who.find('@'));
  CHECK(who == user + "@" + name);
  CHECK_FALSE(user.empty());
}
