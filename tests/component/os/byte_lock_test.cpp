#include "core/error.hpp"
#include "os/byte_lock.hpp"
#include "os/file.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

using namespace oncerun;

namespace {

constexpr std::int64_t k_far = (std::int64_t{1} << 40) + 7;

std::string temporary_file() {
  std::string path = "/tmp/oncerun-bytes-XXXXXX";
  ::close(::mkstemp(path.data()));
  return path;
}

os::UniqueFd open(const std::string& path, int flags = O_RDWR) {
  return os::UniqueFd(::open(path.c_str(), flags | O_CLOEXEC));
}

} // namespace

TEST_CASE("a byte excludes other descriptions, in this process too, and no other byte") {
  const std::string path = temporary_file();
  const os::UniqueFd first = open(path);
  const os::UniqueFd second = open(path);
  REQUIRE(os::try_lock_byte(first.get(), k_far, path));
  CHECK(os::try_lock_byte(first.get(), k_far, path)); // its own lock is no obstacle
  CHECK_FALSE(os::try_lock_byte(second.get(), k_far, path));
  CHECK(os::is_byte_locked(second.get(), k_far, path));
  CHECK_FALSE(os::is_byte_locked(first.get(), k_far, path));
  CHECK(os::try_lock_byte(second.get(), k_far + 1, path));
  CHECK(os::is_byte_locked(open(path, O_RDONLY).get(), k_far, path)); // a look needs no more
  // Another descriptor of the file, closed, drops nothing.
  { const os::UniqueFd third = open(path); }
  CHECK(os::is_byte_locked(second.get(), k_far, path));
  os::unlock_byte(first.get(), k_far);
  CHECK_FALSE(os::is_byte_locked(second.get(), k_far, path));
  CHECK(os::read_file(path)->empty());
  ::unlink(path.c_str());
}

TEST_CASE("a byte goes with the last descriptor of its description, or when anyone unlocks it") {
  const std::string path = temporary_file();
  os::UniqueFd held = open(path);
  const os::UniqueFd looking = open(path);
  REQUIRE(os::try_lock_byte(held.get(), k_far, path));
  int gate[2];
  REQUIRE(::pipe(gate) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::close(gate[1]);
    (void)!::read(gate[0], &byte, 1);
    ::_exit(0);
  }
  const bool explicitly = GENERATE(true, false);
  if (explicitly) {
    os::unlock_byte(held.get(), k_far);
    CHECK_FALSE(os::is_byte_locked(looking.get(), k_far, path));
  } else {
    held.reset();
    CHECK(os::is_byte_locked(looking.get(), k_far, path)); // the child inherited it
  }
  ::close(gate[0]);
  ::close(gate[1]);
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(os::is_byte_locked(looking.get(), k_far, path));
  ::unlink(path.c_str());
}

TEST_CASE("what cannot be locked is an error") {
  const std::string path = temporary_file();
  const os::UniqueFd reading = open(path, O_RDONLY);
  CHECK_THROWS_AS(os::try_lock_byte(reading.get(), k_far, path), core::Error);
  CHECK_THROWS_AS(os::is_byte_locked(-1, k_far, path), core::Error);
  ::unlink(path.c_str());
}
