#include "lock/redis_client.hpp"

#include <hiredis/hiredis.h>

#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace oncerun::lock {

namespace {

using std::chrono::milliseconds;

struct FreeReply {
  void operator()(void* reply) const noexcept { ::freeReplyObject(reply); }
};

timeval timeval_of(milliseconds duration) {
  const auto positive = std::max(duration, milliseconds(1)); // 0 would mean for ever
  const auto seconds = std::chrono::floor<std::chrono::seconds>(positive);
  return {static_cast<time_t>(seconds.count()),
          static_cast<suseconds_t>(std::chrono::microseconds(positive - seconds).count())};
}

RedisReply reply_of(const redisReply& reply) {
  RedisReply result;
  switch (reply.type) {
  case REDIS_REPLY_STRING:
  case REDIS_REPLY_STATUS:
    result.type = RedisReply::Type::text;
    result.text.assign(reply.str, reply.len);
    break;
  case REDIS_REPLY_ERROR:
    result.type = RedisReply::Type::error;
    result.text.assign(reply.str, reply.len);
    break;
  case REDIS_REPLY_INTEGER:
    result.type = RedisReply::Type::integer;
    result.number = reply.integer;
    break;
  case REDIS_REPLY_ARRAY:
    result.type = RedisReply::Type::array;
    for (std::size_t i = 0; i < reply.elements; ++i) {
      result.elements.push_back(reply_of(*reply.element[i]));
    }
    break;
  default:
    break;
  }
  return result;
}

} // namespace

std::string hiredis_version() {
  return std::to_string(HIREDIS_MAJOR) + "." + std::to_string(HIREDIS_MINOR) + "." +
         std::to_string(HIREDIS_PATCH);
}

void RedisClient::Free::operator()(redisContext* context) const noexcept {
  ::redisFree(context);
}

RedisClient::RedisClient(const RedisEndpoint& endpoint, milliseconds timeout)
    : m_server(describe(endpoint)) {
  adopt(::redisConnectWithTimeout(endpoint.host.c_str(), endpoint.port, timeval_of(timeout)),
        timeout);
}

RedisClient::RedisClient(const std::string& path, milliseconds timeout) : m_server(path) {
  adopt(::redisConnectUnixWithTimeout(path.c_str(), timeval_of(timeout)), timeout);
}

void RedisClient::adopt(redisContext* context, milliseconds timeout) {
  m_context.reset(context);
  if (!m_context) {
    throw std::bad_alloc();
  }
  if (m_context->err != 0) {
    fail("cannot connect to Redis at");
  }
  set_timeout(timeout);
}

void RedisClient::set_timeout(milliseconds timeout) {
  if (::redisSetTimeout(m_context.get(), timeval_of(timeout)) != REDIS_OK) {
    fail("cannot set a timeout for Redis at");
  }
}

std::vector<RedisReply> RedisClient::ask(const std::vector<RedisCommand>& commands) {
  for (const RedisCommand& command : commands) {
    std::vector<const char*> words;
    std::vector<std::size_t> lengths;
    for (const std::string& word : command) {
      words.push_back(word.data());
      lengths.push_back(word.size());
    }
    if (::redisAppendCommandArgv(m_context.get(), static_cast<int>(words.size()), words.data(),
                                 lengths.data()) != REDIS_OK) {
      fail("cannot ask Redis at");
    }
  }
  std::vector<RedisReply> replies;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    void* raw = nullptr;
    errno = 0;
    if (::redisGetReply(m_context.get(), &raw) != REDIS_OK || raw == nullptr) {
      fail("no answer from Redis at");
    }
    const std::unique_ptr<void, FreeReply> reply(raw);
    replies.push_back(reply_of(*static_cast<redisReply*>(raw)));
  }
  return replies;
}

void RedisClient::fail(const std::string& what) const {
  // A receive timeout (SO_RCVTIMEO, socket(7)) shows as EAGAIN.
  const bool late = m_context->err == REDIS_ERR_IO && (errno == EAGAIN || errno == EWOULDBLOCK);
  throw RedisUnreachable(what + " " + m_server + ": " + (late ? "timed out" : m_context->errstr));
}

} // namespace oncerun::lock
