#pragma once

#include "lock/redis_client.hpp"
#include "lock/redis_url.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace oncerun::lock {

struct RedisScript;

/// What a lock on a Redis server is asked for; the same in every process of one invocation.
struct RedisOptions {
  RedisUrl url;
  std::chrono::milliseconds ttl{30'000};
  /// How long a mark is kept; 0: no marks.
  std::chrono::milliseconds marks{0};
  /// For connecting and for each answer.
  std::chrono::milliseconds connect_timeout{3'000};
  /// Replicas that must have a change before it counts; none: all that are connected.
  std::optional<int> replicas{};
  bool renew = true;
};

/// What is changed on the server.
struct RedisKeys {
  std::string lock;
  std::string mark;  ///< of the run
  std::string token; ///< the last fencing token
};

/// The lock is ours.
struct RedisAcquired {
  std::string mark; ///< of the run; empty for none
  std::int64_t token = 0;
  /// CLOCK_BOOTTIME right before the request was sent that the server acknowledged.
  std::chrono::milliseconds sent{0};
};
/// Somebody else has it.
struct RedisHeld {
  std::string value;
};
/// The server has been up for less than the lock's time to live: it may have forgotten a lock.
struct RedisTooYoung {
  std::chrono::milliseconds left{0};
};
using RedisAttempt = std::variant<RedisAcquired, RedisHeld, RedisTooYoung>;

/// For release(): the mark is left alone.
inline constexpr std::string_view k_leave_mark = "-";

/// The requests of a lock, to whichever server is the right one: found by sentinels, moved to in a
/// cluster (once a request), connected to again after an error. Every request may be made again
/// when its answer was lost. Blocks: see RedisClient.
///
/// With replicas, what is answered has reached them (WAIT, on the same connection).
///
/// Throws RedisUnreachable for what another try may mend: no connection, no answer, a server that
/// is loading or a replica; core::Error (unavailable) for what it will not.
class RedisSession {
 public:
  explicit RedisSession(RedisOptions options) : m_options(std::move(options)) {}

  /// Of everything that follows.
  void use(RedisKeys keys) { m_keys = std::move(keys); }

  [[nodiscard]] RedisAttempt acquire(const std::string& value);
  /// When it was sent; none if the lock is not ours any more.
  [[nodiscard]] std::optional<std::chrono::milliseconds> renew(const std::string& value);
  enum class Begun { yes, not_ours, mark_changed };
  /// Extends the lock as well; see scripts/begin.lua. `sent` is set where it was ours.
  [[nodiscard]] Begun begin(const std::string& value, const std::string& seen,
                            const std::string& mark, std::int64_t token,
                            std::chrono::milliseconds& sent);
  /// Whether it was still ours; see scripts/release.lua.
  bool release(const std::string& value, const std::string& mark, const std::string& pending_prefix,
               const std::string& older_prefix);
  /// The value of who holds it; none for nobody.
  [[nodiscard]] std::optional<std::string> holder();

  void disconnect() noexcept { m_client.reset(); }

 private:
  RedisClient& connection();
  void connect_to(const RedisEndpoint& endpoint);
  void introduce();
  [[nodiscard]] bool follow_move(const RedisReply& reply);
  [[nodiscard]] RedisEndpoint ask_sentinels();
  [[nodiscard]] RedisReply run(const RedisScript& script, const std::vector<std::string>& keys,
                               const std::vector<std::string>& arguments);
  [[nodiscard]] long long run_for_number(const RedisScript& script,
                                         const std::vector<std::string>& keys,
                                         const std::vector<std::string>& arguments);
  [[nodiscard]] RedisReply run_here(const RedisScript& script, const std::vector<std::string>& keys,
                                    const std::vector<std::string>& arguments);
  void take_facts(const RedisReply& server, const RedisReply& replication);
  void wait_for_replicas();

  RedisOptions m_options;
  RedisKeys m_keys;
  std::optional<RedisClient> m_client;
  std::chrono::milliseconds m_uptime{0};
  std::string m_server_run_id;
  int m_replicas = 0; ///< the most that were connected at once to this server
  std::chrono::milliseconds m_sent{0};
};

} // namespace oncerun::lock
