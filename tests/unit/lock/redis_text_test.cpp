#include "lock/redis_lock.hpp"
#include "lock/redis_text.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace oncerun;
using core::RunMark;
using core::RunStatus;
using lock::parse_mark;
using lock::parse_value;
using lock::pending_prefix;
using lock::print_mark;
using lock::print_value;

namespace {

constexpr const char* k_id = "0f5e3d3c-7f6c-4d5a-9c53-0d8f2f2b1a11";

core::LockNote note(const std::string& job = "settle", const std::string& date = "2024-10-26") {
  return {.job = job,
          .date = date,
          .host = "alpha",
          .since = "2024-10-26T02:00:00.123Z",
          .machine_id = "abc",
          .boot_id = "def",
          .pid_namespace = 4026531836,
          .pid = 4711,
          .run_id = k_id};
}

/// Names that could break a line of words apart.
const std::vector<std::string> k_awkward{
    "a b",  "a=b",   "a|b", "%",         "%41",    "%4",       "100 %",
    "a\nb", "a\r\n", "\t",  " ",         "  x  ",  "süd",      "\x7f",
    "{x}",  "'\"\\", "=",   "oncerun-1", "run=no", "\xff\xfe", "pending x"};

RunMark mark(RunStatus status) {
  return {status, k_id, {1'700'000'000'123}, "alpha", "2024-10-26T02:00:00.123Z"};
}

} // namespace

TEST_CASE("the value of a lock is one line of words") {
  CHECK(print_value(note()) ==
        "oncerun-1 run=" + std::string(k_id) +
            " job=settle date=2024-10-26 host=alpha pid=4711 since=2024-10-26T02:00:00.123Z "
            "machine=abc boot=def pidns=4026531836");
  for (const std::string& awkward : k_awkward) {
    const std::string value = print_value(note(awkward, awkward));
    INFO(value);
    const std::string plain = print_value(note());
    CHECK(std::count(value.begin(), value.end(), ' ') ==
          std::count(plain.begin(), plain.end(), ' '));
    CHECK(value.find('\n') == std::string::npos);
  }
}

TEST_CASE("the value of a lock is read as it was written") {
  std::vector<std::string> names = k_awkward;
  names.emplace_back("settle");
  names.emplace_back("");
  for (const std::string& name : names) {
    INFO(name);
    const auto read = parse_value(print_value(note(name, name)));
    REQUIRE(read);
    CHECK(read->job == name);
    CHECK(read->date == name);
    CHECK(read->host == "alpha");
    CHECK(read->since == "2024-10-26T02:00:00.123Z");
    CHECK(read->machine_id == "abc");
    CHECK(read->boot_id == "def");
    CHECK(read->pid_namespace == 4026531836);
    CHECK(read->pid == 4711);
    CHECK(read->run_id == k_id);
  }
}

TEST_CASE("the value of another program is none of ours") {
  for (const char* value :
       {"", " ", "1", "somebody else's", "oncerun-1", "oncerun-1 ", "oncerun-1 job=settle",
        "oncerun-2 run=x job=settle", "xoncerun-1 run=x", "oncerun-1run=x", "oncerun-1 run=x pid=y",
        "oncerun-1 run=x pid=", "oncerun-1 run=x pidns=-", "oncerun-1 run="}) {
    INFO(value);
    CHECK_FALSE(parse_value(value));
  }
}

TEST_CASE("what a later version adds to a value is passed over") {
  const auto read = parse_value("oncerun-1 run=x job=settle shard=3 =nothing word pid=7");
  REQUIRE(read);
  CHECK(read->run_id == "x");
  CHECK(read->job == "settle");
  CHECK(read->pid == 7);
}

TEST_CASE("a mark is one line of words and read as it was written") {
  CHECK(print_mark(mark(RunStatus::done)) ==
        "done " + std::string(k_id) + " 1700000000123 alpha 2024-10-26T02:00:00.123Z");
  for (const RunStatus status :
       {RunStatus::pending, RunStatus::done, RunStatus::failed, RunStatus::unknown}) {
    CHECK(parse_mark(print_mark(mark(status))) == mark(status));
  }
  for (const std::string& awkward : k_awkward) {
    RunMark odd = mark(RunStatus::failed);
    odd.host = awkward;
    odd.run_id = awkward;
    INFO(print_mark(odd));
    CHECK(print_mark(odd).find('|') == std::string::npos);
    CHECK(parse_mark(print_mark(odd)) == odd);
  }
  // Unknown, and nothing known of it.
  const RunMark empty{};
  CHECK(parse_mark(print_mark(empty)) == empty);
}

TEST_CASE("the mark that stood there before is passed over") {
  const std::string text =
      print_mark(mark(RunStatus::pending)) + "|" + print_mark(mark(RunStatus::done));
  CHECK(parse_mark(text) == mark(RunStatus::pending));
  CHECK(parse_mark(print_mark(mark(RunStatus::done)) + "|") == mark(RunStatus::done));
}

TEST_CASE("a mark that is none is a doubt, and no mark is none") {
  CHECK_FALSE(parse_mark(""));
  for (const char* text :
       {"done", "done x", "done x y z w", "finished x 1 h t", "DONE x 1 h t", "doneish x 1 h t",
        " done x 1 h t", "done  x 1 h t", "done x 1h h t", "somebody else's", "\xff"}) {
    INFO(text);
    const auto read = parse_mark(text);
    REQUIRE(read);
    CHECK(read->status == RunStatus::unknown);
  }
}

TEST_CASE("how a pending mark begins, whatever its token") {
  RunMark pending = mark(RunStatus::pending);
  for (const std::int64_t token : {0L, 1L, 1'700'000'000'123L}) {
    pending.token = {token};
    CHECK(print_mark(pending).starts_with(pending_prefix(k_id)));
  }
  CHECK_FALSE(print_mark(mark(RunStatus::done)).starts_with(pending_prefix(k_id)));
  pending.run_id = std::string(k_id) + "0";
  CHECK_FALSE(print_mark(pending).starts_with(pending_prefix(k_id)));
  pending.run_id = "a b";
  CHECK(print_mark(pending).starts_with(pending_prefix("a b")));
}

TEST_CASE("the keys of a lock") {
  const core::RunKey run{core::JobName::parse("settle"), core::BizDate("2024-10-26")};
  const core::RunKey next{core::JobName::parse("settle"), core::BizDate("2024-10-27")};
  CHECK(lock::redis_keys(run, true, "").lock == "oncerun:lock:settle");
  CHECK(lock::redis_keys(run, false, "").lock == "oncerun:lock:settle:2024-10-26");
  CHECK(lock::redis_keys(run, true, "mine").lock == "mine");
  CHECK(lock::redis_keys(run, true, "").mark != lock::redis_keys(next, true, "").mark);
  CHECK(lock::redis_keys(run, true, "").token == lock::redis_keys(next, true, "").token);
  // A job's marks are its own, also where another job shares the lock.
  const core::RunKey other{core::JobName::parse("other"), core::BizDate("2024-10-26")};
  CHECK(lock::redis_keys(run, true, "mine").mark != lock::redis_keys(other, true, "mine").mark);
}

namespace {

/// The part of a key that decides its slot (redis.io, cluster specification, "Hash tags").
std::string hashed(const std::string& key) {
  const auto open = key.find('{');
  const auto close = open == std::string::npos ? open : key.find('}', open + 1);
  return close == std::string::npos || close == open + 1 ? key
                                                         : key.substr(open + 1, close - open - 1);
}

} // namespace

// A name with a lone '}' hashes as a whole, and no other key can be made to hash like it.
TEST_CASE("in a cluster the keys of a lock are on one server") {
  for (const char* job : {"settle", "{x}", "{x", "a{b}c{d}", "{{x}}", "süd"}) {
    for (const char* text : {"", "mine", "{tag}:mine"}) {
      for (const bool covers_job : {true, false}) {
        const core::RunKey run{core::JobName::parse(job), core::BizDate("2024-10-26")};
        const lock::RedisKeys keys = lock::redis_keys(run, covers_job, text);
        INFO(keys.lock << " " << keys.mark << " " << keys.token);
        CHECK(hashed(keys.mark) == hashed(keys.lock));
        CHECK(hashed(keys.token) == hashed(keys.lock));
      }
    }
  }
}
