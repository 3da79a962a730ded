#include "lock/redis_session.hpp"

#include "core/error.hpp"
#include "lock/redis_scripts.hpp"
#include "os/clock.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace oncerun::lock {

namespace {

using std::chrono::milliseconds;

bool begins(const RedisReply& reply, std::string_view word) {
  return reply.is_error() && reply.text.starts_with(word);
}

/// Throws for an error that the server answered.
const RedisReply& checked(const RedisReply& reply, const std::string& server) {
  if (!reply.is_error()) {
    return reply;
  }
  const std::string text = "Redis at " + server + " refuses: " + reply.text;
  // Each of them passes: a restart, a fail-over, a script that runs too long.
  for (const std::string_view passing : {"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "BUSY",
                                         "TRYAGAIN", "MOVED", "ASK", "NOREPLICAS", "MISCONF"}) {
    if (begins(reply, passing)) {
      throw RedisUnreachable(text);
    }
  }
  std::string hint = "see what it answered; redis-cli asks the same";
  if (begins(reply, "NOAUTH") || begins(reply, "WRONGPASS") || begins(reply, "ERR AUTH") ||
      begins(reply, "ERR invalid password")) {
    hint = "give the password in ONCERUN_REDIS_PASSWORD or --lock-password-file";
  } else if (begins(reply, "NOPERM") ||
             reply.text.find("user executing the script can't") != std::string::npos) {
    hint = "its user needs the keys oncerun:* and the commands of oncerun(1), LOCKS ON A SERVER";
  } else if (begins(reply, "WRONGTYPE")) {
    hint = "another program uses that key; choose one with --lock-key";
  } else if (begins(reply, "OOM")) {
    hint = "it is full: a lock needs a few hundred bytes, and a server that evicts keys (maxmemory-"
           "policy) can lose locks";
  }
  throw core::Error(core::Outcome::unavailable, text, hint);
}

/// The value of a line "name:value" of INFO; empty if there is none.
std::string_view info_value(std::string_view info, std::string_view name) {
  for (std::size_t at = 0; at < info.size();) {
    const std::size_t end = std::min(info.find("\r\n", at), info.size());
    const std::string_view line = info.substr(at, end - at);
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':')) {
      return line.substr(name.size() + 1);
    }
    at = end + 2;
  }
  return {};
}

long long number_of(std::string_view text) {
  long long number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

/// Replicas that are connected and past their first copy (a line "slaveN:ip=…,state=online,…").
int online_replicas(std::string_view info) {
  const auto listed = static_cast<int>(number_of(info_value(info, "connected_slaves")));
  int online = 0;
  for (int i = 0; i < listed; ++i) {
    const std::string_view line = info_value(info, "slave" + std::to_string(i));
    online += line.find("state=online") != std::string_view::npos ? 1 : 0;
  }
  return online;
}

[[noreturn]] void refuse_answer(const std::string& server) {
  throw RedisUnreachable("what answers at " + server + " is no Redis server, or one out of step");
}

std::string text_at(const RedisReply& reply, std::size_t i) {
  return reply.type == RedisReply::Type::array && i < reply.elements.size() ? reply.elements[i].text
                                                                            : std::string();
}

/// Of a value that another program made, no more than a person would read.
std::string shown(const std::string& value) {
  constexpr std::size_t k_most = 2'000; // our own has a host, a job and a date of up to 512 bytes
  return value.substr(0, k_most);
}

long long number_at(const RedisReply& reply, std::size_t i) {
  if (reply.type != RedisReply::Type::array || i >= reply.elements.size()) {
    return 0;
  }
  const RedisReply& element = reply.elements[i];
  return element.type == RedisReply::Type::integer ? element.number : number_of(element.text);
}

} // namespace

RedisAttempt RedisSession::acquire(const std::string& value) {
  const RedisReply reply = run(k_acquire_script, {m_keys.lock, m_keys.mark, m_keys.token},
                               {value, std::to_string(m_options.ttl.count())});
  const long long acquired_it = number_at(reply, 0);
  const std::size_t size = acquired_it == 0 ? 2 : 3;
  if (reply.type != RedisReply::Type::array || reply.elements.size() != size ||
      reply.elements[0].type != RedisReply::Type::integer ||
      reply.elements[1].type != RedisReply::Type::text || acquired_it < 0 || acquired_it > 1) {
    disconnect();
    refuse_answer(describe(m_options.url));
  }
  if (acquired_it == 0) {
    return RedisHeld{shown(text_at(reply, 1))};
  }
  if (m_uptime < m_options.ttl) {
    (void)release(value, std::string(k_leave_mark), "", "");
    constexpr milliseconds k_resolution{1'000}; // of uptime_in_seconds
    return RedisTooYoung{m_options.ttl - m_uptime + k_resolution};
  }
  const bool marks = m_options.marks != milliseconds::zero();
  RedisAcquired acquired{marks ? text_at(reply, 1) : std::string(), number_at(reply, 2), m_sent};
  wait_for_replicas();
  return acquired;
}

std::optional<milliseconds> RedisSession::renew(const std::string& value) {
  if (run_for_number(k_renew_script, {m_keys.lock},
                     {value, std::to_string(m_options.ttl.count())}) == 0) {
    return std::nullopt;
  }
  const milliseconds sent = m_sent;
  wait_for_replicas();
  return sent;
}

RedisSession::Begun RedisSession::begin(const std::string& value, const std::string& seen,
                                        const std::string& mark, std::int64_t token,
                                        milliseconds& sent) {
  const RedisReply reply = run(k_begin_script, {m_keys.lock, m_keys.mark, m_keys.token},
                               {value, std::to_string(m_options.ttl.count()), seen, mark,
                                std::to_string(m_options.marks.count()), std::to_string(token)});
  if (reply.number == 0) {
    return Begun::not_ours;
  }
  if (reply.number < 0) {
    return Begun::mark_changed;
  }
  sent = m_sent;
  wait_for_replicas();
  return Begun::yes;
}

bool RedisSession::release(const std::string& value, const std::string& mark,
                           const std::string& pending_prefix, const std::string& older_prefix) {
  const bool marks = m_options.marks != milliseconds::zero();
  return run_for_number(k_release_script, {m_keys.lock, m_keys.mark},
                        {value, marks ? mark : std::string(k_leave_mark),
                         std::to_string(std::max(m_options.marks, milliseconds(1)).count()),
                         pending_prefix, older_prefix}) == 1;
}

std::optional<std::string> RedisSession::holder() {
  const std::vector<RedisCommand> get{{"GET", m_keys.lock}};
  RedisReply reply = connection().ask(get).front();
  if (follow_move(reply)) {
    reply = connection().ask(get).front();
  }
  if (checked(reply, connection().server()).type != RedisReply::Type::text) {
    return std::nullopt;
  }
  return shown(reply.text);
}

/// "MOVED SLOT HOST:PORT" (redis.io, cluster specification): connects there.
bool RedisSession::follow_move(const RedisReply& reply) {
  if (!begins(reply, "MOVED ")) {
    return false;
  }
  const std::string address = reply.text.substr(reply.text.rfind(' ') + 1);
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) {
    refuse_answer(connection().server());
  }
  connect_to({address.substr(0, colon),
              static_cast<int>(number_of(std::string_view(address).substr(colon + 1)))});
  return true;
}

/// The script on the right server, together with what has to be known of that server: one round
/// trip. A connection that fails is given up, so that the next request makes a new one.
RedisReply RedisSession::run(const RedisScript& script, const std::vector<std::string>& keys,
                             const std::vector<std::string>& arguments) {
  try {
    RedisReply reply = run_here(script, keys, arguments);
    if (follow_move(reply)) {
      reply = run_here(script, keys, arguments);
    }
    return checked(reply, connection().server());
  } catch (const RedisUnreachable&) {
    disconnect();
    throw;
  } catch (const core::Error&) {
    disconnect();
    throw;
  }
}

long long RedisSession::run_for_number(const RedisScript& script,
                                       const std::vector<std::string>& keys,
                                       const std::vector<std::string>& arguments) {
  const RedisReply reply = run(script, keys, arguments);
  if (reply.type != RedisReply::Type::integer) {
    disconnect();
    refuse_answer(describe(m_options.url));
  }
  return reply.number;
}

RedisReply RedisSession::run_here(const RedisScript& script, const std::vector<std::string>& keys,
                                  const std::vector<std::string>& arguments) {
  RedisClient& client = connection();
  RedisCommand call{"EVALSHA", std::string(script.sha1), std::to_string(keys.size())};
  call.insert(call.end(), keys.begin(), keys.end());
  call.insert(call.end(), arguments.begin(), arguments.end());
  m_sent = os::boot_time();
  std::vector<RedisReply> replies = client.ask({{"INFO", "server"}, {"INFO", "replication"}, call});
  take_facts(checked(replies[0], client.server()), checked(replies[1], client.server()));
  if (begins(replies[2], "NOSCRIPT")) {
    call[0] = "EVAL";
    call[1] = script.text;
    m_sent = os::boot_time();
    return std::move(client.ask({call}).front());
  }
  return std::move(replies[2]);
}

void RedisSession::take_facts(const RedisReply& server, const RedisReply& replication) {
  const std::string_view uptime = info_value(server.text, "uptime_in_seconds");
  if (uptime.empty()) {
    refuse_answer(m_client->server());
  }
  m_uptime = std::chrono::seconds(number_of(uptime));
  if (info_value(replication.text, "role") == "slave") {
    throw RedisUnreachable("Redis at " + m_client->server() + " is a replica");
  }
  // Of another server, which sentinels or a name may lead to after a fail-over, all that it has
  // count; of the same one all that it ever had: it may be cut off from them.
  const std::string_view run_id = info_value(server.text, "run_id");
  if (run_id != m_server_run_id) {
    m_server_run_id = run_id;
    m_replicas = 0;
  }
  m_replicas = std::max(m_replicas, online_replicas(replication.text));
}

/// Without it an owner could believe in a lock that a promoted replica has never heard of.
void RedisSession::wait_for_replicas() {
  const int wanted = m_options.replicas.value_or(m_replicas);
  if (wanted == 0) {
    return;
  }
  const milliseconds limit = m_options.connect_timeout;
  m_client->set_timeout(limit * 2);
  const RedisReply reply = checked(
      m_client->ask({{"WAIT", std::to_string(wanted), std::to_string(limit.count())}}).front(),
      m_client->server());
  m_client->set_timeout(limit);
  if (reply.number < wanted) {
    throw RedisUnreachable("of the replicas of Redis at " + m_client->server() + " " +
                           std::to_string(reply.number) + " have the lock, not " +
                           std::to_string(wanted));
  }
}

RedisClient& RedisSession::connection() {
  if (m_client) {
    return *m_client;
  }
  switch (m_options.url.kind) {
  case RedisUrl::Kind::unix_socket:
    m_client.emplace(m_options.url.path, m_options.connect_timeout);
    introduce();
    break;
  case RedisUrl::Kind::sentinel:
    connect_to(ask_sentinels());
    break;
  case RedisUrl::Kind::tls:
    throw core::Error(
        core::Outcome::unavailable, "this oncerun was built with a hiredis that has no TLS",
        "use redis:// inside a tunnel (stunnel), or a build with hiredis 1.0 or newer");
  case RedisUrl::Kind::tcp:
    connect_to(m_options.url.endpoints.front());
    break;
  }
  return *m_client;
}

void RedisSession::connect_to(const RedisEndpoint& endpoint) {
  m_client.reset();
  m_client.emplace(endpoint, m_options.connect_timeout);
  introduce();
}

/// A request must not reach another database because the choice of ours failed: one round trip of
/// its own, where there is anything to say at all.
void RedisSession::introduce() {
  std::vector<RedisCommand> commands;
  const RedisUrl& url = m_options.url;
  if (!url.password.empty()) {
    commands.push_back(url.user.empty() ? RedisCommand{"AUTH", url.password}
                                        : RedisCommand{"AUTH", url.user, url.password});
  }
  if (url.database != 0) {
    commands.push_back({"SELECT", std::to_string(url.database)});
  }
  if (commands.empty()) {
    return;
  }
  for (const RedisReply& reply : m_client->ask(commands)) {
    (void)checked(reply, m_client->server());
  }
}

RedisEndpoint RedisSession::ask_sentinels() {
  std::string trouble;
  for (const RedisEndpoint& sentinel : m_options.url.endpoints) {
    try {
      RedisClient client(sentinel, m_options.connect_timeout);
      const RedisReply reply =
          client.ask({{"SENTINEL", "get-master-addr-by-name", m_options.url.master}}).front();
      if (reply.elements.size() == 2) {
        return {text_at(reply, 0), static_cast<int>(number_at(reply, 1))};
      }
      trouble = "the sentinel " + client.server() + " knows no " + m_options.url.master +
                (reply.is_error() ? " (" + reply.text + ")" : "");
    } catch (const RedisUnreachable& error) {
      trouble = error.what();
    }
  }
  throw RedisUnreachable("no sentinel says where " + m_options.url.master + " is: " + trouble);
}

} // namespace oncerun::lock
