#include "core/error.hpp"
#include "os/file.hpp"
#include "os/life_bytes.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

using namespace oncerun;
using core::OwnerLife;

namespace {

class Folder {
 public:
  Folder() { m_path = ::mkdtemp(m_path.data()); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(m_path); }
  [[nodiscard]] std::string life() const { return m_path + "/led.db-life"; }

 private:
  std::string m_path = "/tmp/oncerun-life-XXXXXX";
};

os::LifeFile open(const Folder& folder) {
  return os::LifeFile::open(folder.life(), "");
}

OwnerLife judge(const os::LifeFile& file, const core::OwnerIdentity& attempt,
                std::vector<pid_t>* pids = nullptr, std::int64_t serial = 7) {
  std::vector<pid_t> seen;
  const OwnerLife life = file.judge(attempt, serial, "no-such-run-id", os::this_process(), seen);
  if (pids != nullptr) {
    *pids = seen;
  }
  return life;
}

core::OwnerIdentity attempt_here(const os::LifeFile& file) {
  core::OwnerIdentity identity = os::this_process();
  identity.life_id = file.id();
  return identity;
}

} // namespace

TEST_CASE("a liveness file has an id and remembers the highest token") {
  const Folder folder;
  CHECK_FALSE(os::LifeFile::look(folder.life()).exists());
  os::LifeFile file = open(folder);
  const std::string id = file.id();
  struct stat made {};
  REQUIRE(::stat(folder.life().c_str(), &made) == 0);
  CHECK(id.substr(36) == "@" + std::to_string(made.st_ino));
  CHECK(open(folder).id() == id);
  CHECK(os::LifeFile::look(folder.life()).id() == id);
  struct stat info {};
  REQUIRE(::stat(folder.life().c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);

  CHECK(file.highest_token() == 0);
  file.remember_token(1'800'000'000'123);
  file.remember_token(5); // never back
  CHECK(open(folder).highest_token() == 1'800'000'000'123);
  const auto size = std::filesystem::file_size(folder.life());
  file.renew_id();
  CHECK(file.id() != id);
  CHECK(open(folder).id() == file.id());
  CHECK(open(folder).highest_token() == 1'800'000'000'123);
  CHECK(std::filesystem::file_size(folder.life()) == size); // changed in place
}

TEST_CASE("makers at once agree on one id, also after one died before it wrote it") {
  const Folder folder;
  ::close(::open(folder.life().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  CHECK_FALSE(os::LifeFile::look(folder.life()).exists());
  int results[2];
  REQUIRE(::pipe(results) == 0);
  constexpr int k_makers = 20;
  constexpr std::size_t k_uuid_size = 36;
  std::vector<pid_t> makers;
  for (int i = 0; i < k_makers; ++i) {
    makers.push_back(::fork());
    if (makers.back() == 0) {
      const std::string id = open(folder).id();
      (void)!::write(results[1], id.data(), k_uuid_size);
      ::_exit(0);
    }
  }
  for (const pid_t maker : makers) {
    ::waitpid(maker, nullptr, 0);
  }
  const std::string id = open(folder).id();
  for (int i = 0; i < k_makers; ++i) {
    char seen[k_uuid_size];
    REQUIRE(::read(results[0], seen, sizeof seen) == sizeof seen);
    CHECK(std::string(seen, sizeof seen) == id.substr(0, k_uuid_size));
  }
  ::close(results[0]);
  ::close(results[1]);
}

TEST_CASE("what is no liveness file is refused and left alone") {
  const Folder folder;
  const int fd = ::open(folder.life().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::write(fd, "something else\n", 15) == 15);
  ::close(fd);
  CHECK_THROWS_AS(open(folder), core::Error);
  CHECK_FALSE(os::LifeFile::look(folder.life()).exists());
  CHECK(os::read_file(folder.life()) == "something else\n");
}

TEST_CASE("the owner is judged by its bytes") {
  const Folder folder;
  const os::LifeFile file = open(folder);
  const core::OwnerIdentity attempt = attempt_here(file);
  std::vector<pid_t> pids;
  CHECK(judge(file, attempt) == OwnerLife::dead);
  {
    os::HeldLife held = os::HeldLife::take(file, 7);
    CHECK(judge(file, attempt, &pids) == OwnerLife::alive);
    CHECK(pids == std::vector<pid_t>{::getpid()});
    CHECK(file.owner_byte_held(7));
    CHECK_FALSE(file.owner_byte_held(8));
    CHECK(os::LifeFile::look(folder.life()).owner_byte_held(7));
    CHECK_THROWS_AS(os::HeldLife::take(file, 7), core::Error);
    const os::HeldLife neighbour = os::HeldLife::take(file, 8);
    // The bytes are proof whatever the row says of machine and boot.
    core::OwnerIdentity foreign = attempt;
    foreign.boot_id = foreign.machine_id = foreign.life_id = "other";
    CHECK(judge(file, foreign, &pids) == OwnerLife::alive);
    CHECK(pids.empty()); // a pid of another host is nobody here
  }
  CHECK(judge(file, attempt) == OwnerLife::dead);
  CHECK_FALSE(file.owner_byte_held(8));
}

TEST_CASE("the bytes of a claimant that is just dying are waited for") {
  const Folder folder;
  const os::LifeFile file = open(folder);
  int taken[2];
  REQUIRE(::pipe2(taken, O_CLOEXEC) == 0);
  const pid_t dying = ::fork();
  if (dying == 0) {
    const os::HeldLife held = os::HeldLife::take(file, 7);
    (void)!::write(taken[1], "t", 1);
    (void)::poll(nullptr, 0, 30);
    ::_exit(0);
  }
  char letter = 0;
  REQUIRE(::read(taken[0], &letter, 1) == 1);
  CHECK_NOTHROW(os::HeldLife::take(file, 7));
  ::waitpid(dying, nullptr, 0);
  ::close(taken[0]);
  ::close(taken[1]);
}

TEST_CASE("a tree that outlives its owner is orphaned, unless its byte was released") {
  const Folder folder;
  const os::LifeFile file = open(folder);
  const core::OwnerIdentity attempt = attempt_here(file);
  const bool released = GENERATE(true, false);
  int gate[2];
  REQUIRE(::pipe(gate) == 0);
  os::HeldLife held = os::HeldLife::take(file, 7);
  const pid_t tree = ::fork();
  if (tree == 0) {
    // As after an execve: nothing but the inherited descriptor is left.
    const int kept = ::fcntl(held.tree_fd(), F_DUPFD_CLOEXEC, 100);
    for (int fd = 3; fd < 100; ++fd) {
      if (fd != gate[0]) {
        ::close(fd);
      }
    }
    char byte = 0;
    (void)!::read(gate[0], &byte, 1);
    ::_exit(kept < 0 ? 1 : 0);
  }
  if (released) {
    held.release_tree();
    CHECK(held.tree_fd() == -1);
    CHECK(judge(file, attempt) == OwnerLife::alive);
  }
  held = os::HeldLife();
  // The child still shares the owner's description until it has closed it.
  std::vector<pid_t> pids;
  for (int i = 0; i < 500 && file.owner_byte_held(7); ++i) {
    ::usleep(10'000);
  }
  CHECK(judge(file, attempt, &pids) == (released ? OwnerLife::dead : OwnerLife::orphaned));
  CHECK(pids == (released ? std::vector<pid_t>{} : std::vector<pid_t>{tree}));
  ::close(gate[1]);
  ::waitpid(tree, nullptr, 0);
  ::close(gate[0]);
  CHECK(judge(file, attempt) == OwnerLife::dead);
}

TEST_CASE("dead is only said of this boot and file, or of another boot of this machine") {
  const Folder folder;
  const os::LifeFile file = open(folder);
  core::OwnerIdentity self = os::this_process();
  self.machine_id = "0123456789abcdef0123456789abcdef";
  const auto life = [&](const core::OwnerIdentity& attempt, const os::LifeFile& by) {
    std::vector<pid_t> pids;
    return by.judge(attempt, 7, "no-such-run-id", self, pids);
  };
  core::OwnerIdentity attempt = self;
  attempt.life_id = file.id();
  CHECK(life(attempt, file) == OwnerLife::dead);

  core::OwnerIdentity other_file = attempt;
  other_file.life_id = "another";
  CHECK(life(other_file, file) == OwnerLife::not_provable);
  CHECK(life(attempt, os::LifeFile::look(folder.life() + "-missing")) == OwnerLife::not_provable);

  core::OwnerIdentity rebooted = other_file;
  rebooted.boot_id = "before";
  CHECK(life(rebooted, file) == OwnerLife::dead);
  rebooted.machine_id = "other";
  CHECK(life(rebooted, file) == OwnerLife::not_provable);

  // A container has its own machine id or none, and the same kernel.
  core::OwnerIdentity container = attempt;
  container.machine_id.clear();
  CHECK(life(container, file) == OwnerLife::dead);

  core::OwnerIdentity nobody;
  CHECK(life(nobody, file) == OwnerLife::not_provable);
  self.boot_id.clear();
  self.machine_id.clear();
  CHECK(life(nobody, file) == OwnerLife::not_provable);
}

TEST_CASE("a process that closed everything is found by its environment, on this boot alone") {
  const Folder folder;
  const os::LifeFile file = open(folder);
  const core::OwnerIdentity attempt = attempt_here(file);
  const std::string run_id = os::random_uuid();
  int gate[2];
  REQUIRE(::pipe2(gate, O_CLOEXEC) == 0);
  const pid_t tree = ::fork();
  if (tree == 0) {
    const std::string entry = "ONCERUN_RUN_ID=" + run_id;
    char* const environment[] = {const_cast<char*>(entry.c_str()), nullptr};
    ::dup2(gate[0], 0);
    ::execle("/bin/cat", "cat", nullptr, environment);
    ::_exit(127);
  }
  const core::OwnerIdentity self = os::this_process();
  std::vector<pid_t> pids;
  OwnerLife life = OwnerLife::dead;
  for (int i = 0; i < 500 && life != OwnerLife::orphaned; ++i) { // until execve has happened
    life = file.judge(attempt, 7, run_id, self, pids);
    ::usleep(10'000);
  }
  CHECK(life == OwnerLife::orphaned);
  CHECK(pids == std::vector<pid_t>{tree});
  // Also where the file was lost: the search needs none.
  core::OwnerIdentity lost = attempt;
  lost.life_id = "lost";
  CHECK(file.judge(lost, 7, run_id, self, pids) == OwnerLife::orphaned);
  core::OwnerIdentity other = attempt;
  other.boot_id = other.machine_id = "other";
  CHECK(file.judge(other, 7, run_id, self, pids) == OwnerLife::not_provable);
  CHECK(pids.empty());
  ::close(gate[0]);
  ::close(gate[1]);
  ::waitpid(tree, nullptr, 0);
}

TEST_CASE("a liveness file that is replaced while it is in use is noticed") {
  const Folder folder;
  const os::LifeFile file = open(folder);
  std::filesystem::remove(folder.life());
  CHECK_THROWS_AS(os::HeldLife::take(file, 7), core::Error);
  const os::LifeFile fresh = open(folder);
  CHECK_THROWS_AS(os::HeldLife::take(file, 7), core::Error);
  CHECK(fresh.id() != file.id());
}
