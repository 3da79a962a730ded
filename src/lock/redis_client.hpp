#pragma once

#include "lock/redis_url.hpp"

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct redisContext;

namespace oncerun::lock {

/// A server cannot be reached, or its answer did not come: what was asked may have been done.
class RedisUnreachable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Of hiredis, as it was built with.
[[nodiscard]] std::string hiredis_version();

/// One answer (RESP2, redis.io/docs/reference/protocol-spec).
struct RedisReply {
  enum class Type { text, error, integer, nil, array };
  Type type = Type::nil;
  std::string text; ///< of text and error
  long long number = 0;
  std::vector<RedisReply> elements;
  [[nodiscard]] bool is_error() const noexcept { return type == Type::error; }
};

using RedisCommand = std::vector<std::string>;

/// One blocking connection. Name lookup, connecting and waiting may each take long, whatever the
/// timeout (a resolver has its own), so only a process of its own uses it: the lease keeper.
class RedisClient {
 public:
  /// By TCP; throws RedisUnreachable with a text that names the server.
  RedisClient(const RedisEndpoint& endpoint, std::chrono::milliseconds timeout);
  /// By a Unix domain socket.
  RedisClient(const std::string& path, std::chrono::milliseconds timeout);

  /// Sends all of them at once and waits for all answers, each no longer than the timeout. An error
  /// that the server answers is a reply. Throws RedisUnreachable; the connection is then of no more
  /// use.
  [[nodiscard]] std::vector<RedisReply> ask(const std::vector<RedisCommand>& commands);
  /// Of the following requests; at least a millisecond.
  void set_timeout(std::chrono::milliseconds timeout);
  /// "host:port" or the path.
  [[nodiscard]] const std::string& server() const noexcept { return m_server; }

 private:
  struct Free {
    void operator()(redisContext* context) const noexcept;
  };
  void adopt(redisContext* context, std::chrono::milliseconds timeout);
  [[noreturn]] void fail(const std::string& what) const;

  std::string m_server;
  std::unique_ptr<redisContext, Free> m_context;
};

} // namespace oncerun::lock
