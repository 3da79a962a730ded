#include "lock/redis_url.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace oncerun::lock {

namespace {

using Kind = RedisUrl::Kind;

constexpr int k_redis_port = 6379;
constexpr int k_sentinel_port = 26379;
constexpr int k_highest_port = 65535;
/// More than any server is configured for; keeps a typing error from being asked for.
constexpr int k_highest_database = 1'000'000;

struct Scheme {
  std::string_view prefix;
  Kind kind;
};
constexpr std::array k_schemes{Scheme{"redis://", Kind::tcp}, Scheme{"rediss://", Kind::tls},
                               Scheme{"redis+unix://", Kind::unix_socket},
                               Scheme{"redis+sentinel://", Kind::sentinel}};

[[noreturn]] void refuse(const std::string& what) {
  throw core::UsageError("the Redis URL of --lock: " + what,
                         "redis://[user:password@]host[:port][/db], redis+unix://path, "
                         "redis+sentinel://h1:p,h2:p/NAME[/db] or rediss://…");
}

const Scheme* scheme_of(std::string_view text) noexcept {
  for (const Scheme& scheme : k_schemes) {
    if (text.starts_with(scheme.prefix)) {
      return &scheme;
    }
  }
  return nullptr;
}

int number(std::string_view text, int highest, const char* what) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > highest) {
    // Not repeated: in a URL whose host was forgotten it is the password.
    refuse(std::string("the ") + what + " is no number from 0 to " + std::to_string(highest));
  }
  return value;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    constexpr int k_hexadecimal = 16;
    int value = 0;
    const char* const begin = text.data() + i + 1;
    const char* const end = begin + 2;
    if (i + 2 >= text.size() || std::from_chars(begin, end, value, k_hexadecimal).ptr != end) {
      refuse("a % in user or password that two hexadecimal digits do not follow");
    }
    decoded += static_cast<char>(value);
    i += 2;
  }
  return decoded;
}

/// Takes "user:password@" off; the last @ ends it, since one in a password may be left unencoded.
/// In a path there may be one, too.
void take_credentials(std::string_view& rest, RedisUrl& url) {
  const bool is_path = url.kind == Kind::unix_socket;
  const auto at = is_path ? rest.substr(0, rest.find('/')).rfind('@') : rest.rfind('@');
  if (at == std::string_view::npos) {
    return;
  }
  const std::string_view credentials = rest.substr(0, at);
  rest.remove_prefix(at + 1);
  const auto colon = credentials.find(':');
  url.user = percent_decoded(credentials.substr(0, colon));
  if (colon != std::string_view::npos) { // else it comes from elsewhere
    url.password = percent_decoded(credentials.substr(colon + 1));
  }
}

RedisEndpoint endpoint(std::string_view text, int default_port) {
  RedisEndpoint endpoint{"", default_port};
  std::string_view host = text;
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) {
      refuse("'" + std::string(text) + "' has no closing bracket");
    }
    host = text.substr(1, close - 1);
    const std::string_view after = text.substr(close + 1);
    if (!after.empty() && after.front() != ':') {
      refuse("'" + std::string(after) + "' after the closing bracket");
    }
    if (!after.empty()) {
      port = after.substr(1);
    }
  } else if (const auto colon = text.find(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.empty()) {
    refuse("no host is named");
  }
  // RFC 3986, section 3.2.2; a name may be anything else that a resolver knows.
  const bool is_v6 = text.starts_with('[');
  const bool fits =
      is_v6 ? host.find(':') != std::string_view::npos &&
                  host.substr(0, host.find('%')).find_first_not_of("0123456789abcdefABCDEF:.") ==
                      std::string_view::npos
            : host.find_first_of("[]/?#@\\\"<>") == std::string_view::npos;
  const bool visible = std::all_of(host.begin(), host.end(), [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != 0x7f;
  });
  if (!fits || !visible || host.find_first_of("[]/,@") != std::string_view::npos) {
    refuse("the host is no name and no address");
  }
  endpoint.host = host;
  if (port) {
    endpoint.port = number(*port, k_highest_port, "port");
  }
  return endpoint;
}

void read_socket(std::string_view rest, RedisUrl& url) {
  constexpr std::string_view k_database = "?db=";
  const auto query = rest.find('?');
  if (query != std::string_view::npos) {
    if (!rest.substr(query).starts_with(k_database)) {
      refuse("'" + std::string(rest.substr(query)) + "' after the path; only ?db=N is known");
    }
    url.database =
        number(rest.substr(query + k_database.size()), k_highest_database, "database number");
    rest = rest.substr(0, query);
  }
  if (rest.empty() || rest.find('\0') != std::string_view::npos) {
    refuse("no path is named");
  }
  url.path = rest;
}

void read_hosts(std::string_view hosts, RedisUrl& url) {
  if (url.kind != Kind::sentinel) {
    url.endpoints.push_back(endpoint(hosts, k_redis_port));
    return;
  }
  while (true) {
    const auto comma = hosts.find(',');
    url.endpoints.push_back(endpoint(hosts.substr(0, comma), k_sentinel_port));
    if (comma == std::string_view::npos) {
      return;
    }
    hosts.remove_prefix(comma + 1);
  }
}

} // namespace

bool is_redis_url(std::string_view text) noexcept {
  return scheme_of(text) != nullptr;
}

RedisUrl parse_redis_url(std::string_view text) {
  const Scheme* scheme = scheme_of(text);
  if (scheme == nullptr) {
    refuse("an unknown scheme");
  }
  RedisUrl url;
  url.kind = scheme->kind;
  std::string_view rest = text.substr(scheme->prefix.size());
  take_credentials(rest, url);
  if (url.kind == Kind::unix_socket) {
    read_socket(rest, url);
    return url;
  }
  std::string_view path;
  if (const auto slash = rest.find('/'); slash != std::string_view::npos) {
    path = rest.substr(slash + 1);
    rest = rest.substr(0, slash);
  }
  read_hosts(rest, url);
  if (url.kind == Kind::sentinel) {
    const auto slash = path.find('/');
    url.master = percent_decoded(path.substr(0, slash));
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
    if (url.master.empty()) {
      refuse("the name of the master is missing after the sentinels");
    }
  }
  if (!path.empty()) {
    url.database = number(path, k_highest_database, "database number");
  }
  return url;
}

std::string describe(const RedisEndpoint& endpoint) {
  const bool is_v6 = endpoint.host.find(':') != std::string::npos;
  return (is_v6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

std::string describe(const RedisUrl& url) {
  std::string text;
  for (const Scheme& scheme : k_schemes) {
    if (scheme.kind == url.kind) {
      text = scheme.prefix;
    }
  }
  text += url.path;
  for (const RedisEndpoint& endpoint : url.endpoints) {
    text += (&endpoint == &url.endpoints.front() ? "" : ",") + describe(endpoint);
  }
  if (!url.master.empty()) {
    text += "/";
    for (const char c : url.master) { // only what would be read otherwise
      text += c == '%' ? "%25" : c == '/' ? "%2F" : c == '@' ? "%40" : std::string(1, c);
    }
  }
  if (url.database != 0) {
    text += (url.kind == Kind::unix_socket ? "?db=" : "/") + std::to_string(url.database);
  }
  return text;
}

} // namespace oncerun::lock
