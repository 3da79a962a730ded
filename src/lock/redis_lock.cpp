#include "lock/redis_lock.hpp"

#include "core/error.hpp"
#include "lock/lease_keeper.hpp"
#include "lock/redis_text.hpp"
#include "os/clock.hpp"
#include "os/host.hpp"

#include <poll.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

namespace oncerun::lock {

namespace {

using std::chrono::milliseconds;

/// How long an answer of the keeper may take that was given `connect_timeout` for each step: a name
/// lookup, connecting, introducing ourselves, the request, WAIT; and once more over again.
milliseconds patience(const RedisOptions& options) {
  constexpr int k_steps = 3;
  return options.connect_timeout * k_steps;
}

core::Error no_answer(const RedisOptions& options) {
  return {core::Outcome::unavailable,
          "no answer from " + describe(options.url) + " within " +
              std::to_string(patience(options).count()) + " ms",
          "looking up its name, connecting or asking hangs; see --connect-timeout"};
}

/// What acquisitions, held locks and notices of one invocation share.
struct Shared {
  explicit Shared(RedisLockOptions given) : options(std::move(given)) {}
  RedisLockOptions options;
  std::optional<LeaseKeeper> keeper;
  std::vector<std::string> notices;
};

class HeldRedisLock final : public core::HeldLock {
 public:
  HeldRedisLock(std::shared_ptr<Shared> shared, std::string key, std::string run_id,
                const Message& acquired)
      : m_shared(std::move(shared)), m_key(std::move(key)), m_run_id(std::move(run_id)),
        m_former(acquired[1]) {
    (void)std::from_chars(acquired[2].data(), acquired[2].data() + acquired[2].size(),
                          m_token.value);
    m_stands = m_former;
  }
  ~HeldRedisLock() override { HeldRedisLock::release(); }

  [[nodiscard]] int inherited_fd() const noexcept override { return -1; }
  [[nodiscard]] bool covers_job() const noexcept override { return m_shared->options.covers_job; }
  [[nodiscard]] const core::Lease* lease() const noexcept override { return &*m_shared->keeper; }
  [[nodiscard]] std::string run_id() const override { return m_run_id; }
  [[nodiscard]] core::Token token() const noexcept override { return m_token; }
  [[nodiscard]] std::optional<core::RunMark> found_mark() const override {
    return parse_mark(m_former);
  }

  void begin_attempt(const core::RunMark& pending, const core::StopRequest& stop) override {
    const bool marks = m_shared->options.server.marks != milliseconds::zero();
    if (!marks && pending.token <= m_token) {
      return;
    }
    const std::string text = print_mark(pending);
    // Also when no answer comes: it may have been written, and is to be put back then.
    m_older_prefix = std::exchange(m_pending_prefix, pending_prefix(pending.run_id));
    m_leave = m_former;
    const std::optional<Message> answer =
        ask({"begin", m_stands, text, std::to_string(pending.token.value)}, stop);
    if (!answer) {
      throw no_answer(m_shared->options.server);
    }
    if (answer->front() == "changed") {
      throw core::Error(core::Outcome::unavailable,
                        "another host has said something about this run meanwhile",
                        "nothing was started; the next start decides by it");
    }
    if (answer->front() != "begun") {
      const bool told = answer->size() > 2;
      throw core::Error(core::Outcome::unavailable,
                        told ? (*answer)[1] : std::string("the lock is not ours any more"),
                        told ? (*answer)[2] : std::string("somebody removed or took it"));
    }
    m_stands = text;
    m_token = std::max(m_token, pending.token);
  }

  /// What was found is left as it is where it says the same.
  void leave_mark(const core::RunMark& mark) override {
    const std::optional<core::RunMark> found = found_mark();
    const bool doubt =
        mark.status == core::RunStatus::unknown || mark.status == core::RunStatus::pending;
    if (found && found->run_id == mark.run_id && (doubt || found->status == mark.status)) {
      return;
    }
    // What this ledger knew before may be older than what another host has said since.
    const bool own_attempt = !m_pending_prefix.empty();
    if (found && !own_attempt && found->run_id != mark.run_id &&
        mark.status != core::RunStatus::done) {
      return;
    }
    m_leave = print_mark(mark);
  }

  void release() noexcept override {
    if (std::exchange(m_released, true)) {
      return;
    }
    try {
      // The result is recorded, and the keeper goes on by itself: nobody waits long for this.
      constexpr milliseconds k_limit{1'000};
      const std::optional<Message> answer =
          m_shared->keeper->ask({"release", m_leave, m_pending_prefix, m_older_prefix},
                                os::Deadline::after(k_limit), core::NoStopRequest());
      if (!answer || answer->front() == "failed") {
        m_shared->notices.push_back(
            "the lock " + m_key + " was not released: " +
            (answer ? (*answer)[1] : std::string("no answer within a second")) +
            "; it ends by itself, and other hosts ask about this run");
      } else if (answer->front() == "lost" && !is_known_to_be_lost()) {
        m_shared->notices.push_back("the lock " + m_key +
                                    " was lost before the end: another host may have run the same "
                                    "meanwhile");
      }
    } catch (const std::exception& error) {
      m_shared->notices.push_back("the lock " + m_key + " was not released: " + error.what() +
                                  "; it ends by itself, and other hosts ask about this run");
    }
  }

 private:
  /// Whoever ran under it has been told then.
  [[nodiscard]] bool is_known_to_be_lost() const noexcept {
    pollfd lost{m_shared->keeper->lost_fd(), POLLIN, 0};
    return ::poll(&lost, 1, 0) > 0;
  }

  [[nodiscard]] std::optional<Message> ask(const Message& request, const core::StopRequest& stop) {
    return m_shared->keeper->ask(request, os::Deadline::after(patience(m_shared->options.server)),
                                 stop);
  }

  std::shared_ptr<Shared> m_shared;
  std::string m_key;
  std::string m_run_id;
  std::string m_former; ///< the mark that stood there, as text
  core::Token m_token;
  std::string m_stands; ///< the mark as we know it by now
  std::string m_leave{k_leave_mark};
  std::string m_pending_prefix; ///< of a pending mark of ours that may stand there
  std::string m_older_prefix;   ///< or of the attempt before, where no answer came
  bool m_released = false;
};

/// --lock-unavailable run.
class MissingLock final : public core::HeldLock {
 public:
  explicit MissingLock(std::string why) : m_why(std::move(why)) {}
  [[nodiscard]] int inherited_fd() const noexcept override { return -1; }
  [[nodiscard]] bool covers_job() const noexcept override { return false; }
  void release() noexcept override {}
  [[nodiscard]] std::string missing_because() const override { return m_why; }

 private:
  std::string m_why;
};

class RedisLock final : public core::Lock {
 public:
  explicit RedisLock(RedisLockOptions options)
      : m_shared(std::make_shared<Shared>(std::move(options))) {}

  [[nodiscard]] std::unique_ptr<core::HeldLock> acquire(const core::RunKey& run, milliseconds wait,
                                                        const core::StopRequest& stop) override {
    try {
      return try_to_acquire(run, wait, stop);
    } catch (const core::Error& error) {
      if (!m_shared->options.run_without || error.outcome() != core::Outcome::unavailable) {
        throw;
      }
      return std::make_unique<MissingLock>(error.what());
    }
  }

  [[nodiscard]] bool is_held() override {
    const std::optional<std::string> holder = ask_holder();
    m_holder = holder.value_or("");
    return holder.has_value();
  }

  /// After a lost race what it said, without asking again.
  [[nodiscard]] std::optional<core::LockNote> holder() override { return parse_value(m_holder); }

  [[nodiscard]] std::string describe() const override {
    return keys_of(m_shared->options.run).lock + " on " +
           lock::describe(m_shared->options.server.url);
  }
  [[nodiscard]] std::vector<std::string> take_notices() override {
    return std::exchange(m_shared->notices, {});
  }

 private:
  [[nodiscard]] RedisKeys keys_of(const core::RunKey& run) const {
    return redis_keys(run, m_shared->options.covers_job, m_shared->options.key);
  }

  [[nodiscard]] LeaseKeeper& keeper() {
    if (!m_shared->keeper) {
      m_shared->keeper.emplace(m_shared->options.server);
    }
    return *m_shared->keeper;
  }

  [[nodiscard]] std::unique_ptr<core::HeldLock>
  try_to_acquire(const core::RunKey& run, milliseconds wait, const core::StopRequest& stop) {
    const core::OwnerIdentity self = os::this_process();
    const std::string run_id = os::random_uuid();
    const core::LockNote note{.job = run.job.text(),
                              .date = run.date.label(),
                              .host = self.host,
                              .since = os::now_text(),
                              .machine_id = self.machine_id,
                              .boot_id = self.boot_id,
                              .pid_namespace = self.pid_namespace,
                              .pid = self.pid,
                              .run_id = run_id};
    const RedisOptions& server = m_shared->options.server;
    const RedisKeys keys = keys_of(run);
    const std::optional<Message> answer =
        keeper().ask({"acquire", print_value(note), std::to_string(wait.count()), keys.lock,
                      keys.mark, keys.token},
                     os::Deadline::after(wait + patience(server)), stop);
    if (!answer) {
      throw no_answer(server);
    }
    if (answer->front() == "acquired" && answer->size() > 2) {
      return std::make_unique<HeldRedisLock>(m_shared, keys.lock, run_id, *answer);
    }
    if (answer->front() == "held" && answer->size() > 1) {
      m_holder = (*answer)[1];
      return nullptr;
    }
    throw failure(*answer);
  }

  [[nodiscard]] std::optional<std::string> ask_holder() {
    const std::optional<Message> answer = keeper().ask(
        {"holder", keys_of(m_shared->options.run).lock},
        os::Deadline::after(patience(m_shared->options.server)), core::NoStopRequest());
    if (!answer) {
      throw no_answer(m_shared->options.server);
    }
    if (answer->front() != "holder") {
      throw failure(*answer);
    }
    return answer->size() > 1 ? std::optional((*answer)[1]) : std::nullopt;
  }

  [[nodiscard]] static core::Error failure(const Message& answer) {
    return {core::Outcome::unavailable, answer.size() > 1 ? answer[1] : answer.front(),
            answer.size() > 2 ? answer[2] : std::string()};
  }

  std::shared_ptr<Shared> m_shared;
  std::string m_holder; ///< the value that was last seen
};

/// What a cluster hashes of a key: what stands between the first brace and the next closing one, if
/// that is anything; else all of it.
std::string hash_tag(const std::string& key) {
  const auto open = key.find('{');
  const auto close = open == std::string::npos ? open : key.find('}', open);
  return close == std::string::npos || close == open + 1 ? key
                                                         : key.substr(open + 1, close - open - 1);
}

} // namespace

std::unique_ptr<core::Lock> redis_lock(RedisLockOptions options) {
  return std::make_unique<RedisLock>(std::move(options));
}

RedisKeys redis_keys(const core::RunKey& run, bool covers_job, const std::string& text) {
  RedisKeys keys;
  keys.lock = text;
  if (text.empty()) {
    keys.lock = "oncerun:lock:" + run.job.text() + (covers_job ? "" : ":" + run.date.label());
  }
  // A name of the user's own may be that of several jobs, whose marks are their own nevertheless.
  const std::string job = text.empty() ? "" : ":" + key_part(run.job.text(), ":{}%");
  const std::string hashed = hash_tag(keys.lock);
  const std::string tag =
      "{" + hashed + "}" + (hashed == keys.lock ? "" : ":" + key_part(keys.lock, ":{}%"));
  keys.mark = "oncerun:mark:" + tag + job + ":" + key_part(run.date.label(), "{}%");
  keys.token = "oncerun:token:" + tag + job;
  return keys;
}

} // namespace oncerun::lock
