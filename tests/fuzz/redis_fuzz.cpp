// What a lock on a Redis server reads: its URL, and the texts that other hosts, or anybody, left on
// the server. Input: a URL, a value and a mark, a line each.

#include "fuzz/fuzz.hpp"
#include "lock/redis_text.hpp"
#include "lock/redis_url.hpp"

using namespace oncerun;
using fuzz::require;

namespace {

void check_url(const std::string& text) {
  lock::RedisUrl url;
  if (!lock::is_redis_url(text) || !fuzz::accepts([&] { url = lock::parse_redis_url(text); })) {
    return;
  }
  const bool socket = url.kind == lock::RedisUrl::Kind::unix_socket;
  require(socket ? !url.path.empty() : !url.endpoints.empty(), "it says where the server is", text);
  require(url.database >= 0, "databases are numbered from 0", text);
  require((url.kind == lock::RedisUrl::Kind::sentinel) == !url.master.empty(),
          "sentinels, and only they, need a name", text);
  // What is shown leads to the same server, and holds neither user nor password.
  const std::string shown = lock::describe(url);
  const lock::RedisUrl again = lock::parse_redis_url(shown);
  require(again.endpoints == url.endpoints && again.path == url.path &&
              again.database == url.database,
          "what is shown names the same server", shown);
  require(again.user.empty() && again.password.empty(), "and nobody's password", shown);
}

void check_value(const std::string& text) {
  const auto note = lock::parse_value(text);
  if (!note) {
    return;
  }
  require(!note->run_id.empty(), "a value names its run", text);
  const auto again = lock::parse_value(lock::print_value(*note));
  require(again && again->run_id == note->run_id && again->date == note->date &&
              again->host == note->host && again->pid == note->pid && again->job == note->job,
          "a value is read as it was written", text);
}

void check_mark(const std::string& text) {
  const auto mark = lock::parse_mark(text);
  require(mark.has_value() == !text.substr(0, text.find('|')).empty(),
          "whatever stands there is a mark, if only of a doubt", text);
  if (mark) {
    const std::string printed = lock::print_mark(*mark);
    require(lock::parse_mark(printed) == mark, "a mark is read as it was written", printed);
    require(mark->status != core::RunStatus::ready && mark->status != core::RunStatus::skipped,
            "a mark knows four states", text);
  }
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto lines = fuzz::split(fuzz::text_of(data, size), '\n');
  check_url(lines[0]);
  check_value(lines.size() > 1 ? lines[1] : lines[0]);
  check_mark(lines.size() > 2 ? lines[2] : lines[0]);
  return 0;
}
