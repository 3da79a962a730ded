#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace oncerun::lock {

struct RedisEndpoint {
  std::string host; ///< a name or an address, without brackets
  int port = 0;
  friend bool operator==(const RedisEndpoint&, const RedisEndpoint&) = default;
};

/// Where a Redis server is. Forms, after the scheme that IANA registered for redis (and rediss):
///
///     redis://[[USER][:PASSWORD]@]HOST[:PORT][/DB]     port 6379, database 0
///     rediss://…                                       the same by TLS
///     redis+unix://[[USER][:PASSWORD]@]PATH[?db=DB]    a Unix domain socket
///     redis+sentinel://[…@]HOST[:PORT][,HOST[:PORT]]…/NAME[/DB]   sentinels, port 26379
///
/// User and password are percent-decoded (RFC 3986, section 2.1); an IPv6 address stands in
/// brackets.
struct RedisUrl {
  enum class Kind { tcp, tls, unix_socket, sentinel };
  Kind kind = Kind::tcp;
  std::vector<RedisEndpoint> endpoints; ///< one, or each sentinel; none for a socket
  std::string path;                     ///< of the socket
  std::string master;                   ///< the name by which sentinels know the server
  int database = 0;
  std::string user;
  std::string password;
};

[[nodiscard]] bool is_redis_url(std::string_view text) noexcept;
/// Throws UsageError, which never repeats the password.
[[nodiscard]] RedisUrl parse_redis_url(std::string_view text);
/// The URL without user and password, for messages.
[[nodiscard]] std::string describe(const RedisUrl& url);
/// "host:port", an IPv6 address in brackets.
[[nodiscard]] std::string describe(const RedisEndpoint& endpoint);

} // namespace oncerun::lock
