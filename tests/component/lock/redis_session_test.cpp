#include "core/error.hpp"
#include "lock/redis_session.hpp"
#include "os/clock.hpp"
#include "support/catch.hpp"
#include "support/fake_redis.hpp"

#include <algorithm>
#include <chrono>
#include <string>

using namespace oncerun;
using namespace std::chrono_literals;
using lock::RedisAcquired;
using lock::RedisHeld;
using lock::RedisSession;
using lock::RedisTooYoung;
using lock::RedisUnreachable;
using test::array;
using test::bulk;
using test::FakeRedis;
using test::integer;
using test::RedisWords;
using test::Scratch;

namespace {

struct Server {
  std::string uptime = "1000";
  std::string role = "master";
  std::string replicas;
  std::string run_id = "one";
  std::string script = array({integer(1), bulk(""), bulk("5")});
  std::string wait = integer(0);
};

/// What a server answers that is as the fields say.
FakeRedis::Answer like(Server server) {
  return [server = std::move(server)](const RedisWords& words) -> std::optional<std::string> {
    if (words[0] == "INFO") {
      return words[1] == "server"
                 ? bulk("# Server\r\nrun_id:" + server.run_id +
                        "\r\nuptime_in_seconds:" + server.uptime + "\r\n")
                 : bulk("# Replication\r\nrole:" + server.role + "\r\n" + server.replicas);
    }
    if (words[0] == "WAIT") {
      return server.wait;
    }
    return words[0] == "AUTH" || words[0] == "SELECT" ? "+OK\r\n" : server.script;
  };
}

RedisSession session_with(const FakeRedis& server, lock::RedisOptions options = {}) {
  options.url.kind = lock::RedisUrl::Kind::unix_socket;
  options.url.path = server.path();
  options.connect_timeout = 2s;
  RedisSession session(options);
  session.use({"lock", "mark", "token"});
  return session;
}

std::string trouble_of(RedisSession& session) {
  try {
    (void)session.acquire("v");
  } catch (const RedisUnreachable& error) {
    return "passing: " + std::string(error.what());
  } catch (const core::Error& error) {
    CHECK(error.outcome() == core::Outcome::unavailable);
    return "final: " + std::string(error.what()) + " / " + error.hint();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a lock is counted from when it was asked for, not from when that was answered") {
  const Scratch folder;
  constexpr auto k_slow = 300ms;
  auto quick = like({});
  const FakeRedis server(folder, "s", [&](const RedisWords& words) {
    if (words[0] == "EVALSHA") {
      (void)poll(nullptr, 0, static_cast<int>(k_slow.count()));
    }
    return quick(words);
  });
  RedisSession session = session_with(server);
  const auto before = os::boot_time();
  const auto attempt = session.acquire("v");
  const auto after = os::boot_time();
  REQUIRE(std::holds_alternative<RedisAcquired>(attempt));
  const auto sent = std::get<RedisAcquired>(attempt).sent;
  CHECK(sent >= before);
  CHECK(sent <= after - k_slow);
  CHECK(std::get<RedisAcquired>(attempt).token == 5);
}

TEST_CASE("a script that the server does not know is sent whole, and the lock counted from then") {
  const Scratch folder;
  auto known = like({});
  const FakeRedis server(folder, "s", [&](const RedisWords& words) {
    return words[0] == "EVALSHA" ? test::error("NOSCRIPT No matching script.") : known(words);
  });
  RedisSession session = session_with(server);
  CHECK(std::holds_alternative<RedisAcquired>(session.acquire("v")));
  CHECK(server.count("EVALSHA") == 1);
  CHECK(server.count("EVAL") == 1);
  CHECK(server.count("CONNECT") == 1);
}

TEST_CASE("a lock that somebody else has") {
  const Scratch folder;
  Server held;
  held.script = array({integer(0), bulk("theirs")});
  const FakeRedis server(folder, "s", like(held));
  RedisSession session = session_with(server);
  const auto attempt = session.acquire("v");
  REQUIRE(std::holds_alternative<RedisHeld>(attempt));
  CHECK(std::get<RedisHeld>(attempt).value == "theirs");
}

TEST_CASE("a server that is too young: what was taken is given back") {
  const Scratch folder;
  Server young;
  young.uptime = "29";
  const FakeRedis server(folder, "s",
                         [answer = like(young), n = 0](const RedisWords& words) mutable {
                           const bool second = words[0] == "EVALSHA" && ++n > 1;
                           return second ? std::optional(integer(1)) : answer(words);
                         });
  lock::RedisOptions options;
  options.ttl = 30s;
  RedisSession session = session_with(server, options);
  const auto attempt = session.acquire("v");
  REQUIRE(std::holds_alternative<RedisTooYoung>(attempt));
  // uptime_in_seconds may be almost a second more or less than that.
  CHECK(std::get<RedisTooYoung>(attempt).left >= 1s);
  CHECK(std::get<RedisTooYoung>(attempt).left <= 2s);
  CHECK(server.count("EVALSHA") == 2);
}

TEST_CASE("a server without a word about its age is none to be trusted") {
  const Scratch folder;
  Server silent;
  silent.uptime = "";
  const FakeRedis server(folder, "s", like(silent));
  RedisSession session = session_with(server);
  bool acquired = false;
  try {
    acquired = std::holds_alternative<RedisAcquired>(session.acquire("v"));
  } catch (const RedisUnreachable&) {
    acquired = false;
  } catch (const core::Error&) {
    acquired = false;
  }
  CHECK_FALSE(acquired);
}

TEST_CASE("a replica is no server for locks") {
  const Scratch folder;
  Server replica;
  replica.role = "slave";
  const FakeRedis server(folder, "s", like(replica));
  RedisSession session = session_with(server);
  CHECK(contains(trouble_of(session), "passing: "));
  CHECK(contains(trouble_of(session), "replica"));
  CHECK(server.count("CONNECT") == 2); // the next may be another server
}

TEST_CASE("what passes, and what does not") {
  for (const char* passing :
       {"LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a replica", "MASTERDOWN Link with MASTER is down",
        "CLUSTERDOWN Hash slot not served", "BUSY Redis is busy running a script",
        "TRYAGAIN Multiple keys request"}) {
    const Scratch folder;
    Server server;
    server.script = test::error(passing);
    const FakeRedis fake(folder, "s", like(server));
    RedisSession session = session_with(fake);
    INFO(passing);
    CHECK(contains(trouble_of(session), "passing: "));
  }
  for (const char* final :
       {"NOAUTH Authentication required.", "WRONGPASS invalid username-password pair",
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "ERR unknown command 'EVALSHA'"}) {
    const Scratch folder;
    Server server;
    server.script = test::error(final);
    const FakeRedis fake(folder, "s", like(server));
    RedisSession session = session_with(fake);
    INFO(final);
    const std::string trouble = trouble_of(session);
    CHECK(contains(trouble, "final: "));
    CHECK(contains(trouble, final));
  }
}

TEST_CASE("as many replicas are waited for as are online") {
  struct Row {
    std::string replicas;
    std::optional<int> option;
    long long have;
    bool waits;
    bool acquires;
  };
  const std::string two = "connected_slaves:2\r\nslave0:ip=h,port=1,state=online,offset=1,lag=0\r\n"
                          "slave1:ip=h,port=2,state=online,offset=1,lag=0\r\n";
  const std::string one_of_two =
      "connected_slaves:2\r\nslave0:ip=h,port=1,state=online,offset=1,lag=0\r\n"
      "slave1:ip=h,port=2,state=wait_bgsave,offset=0,lag=0\r\n";
  for (const Row& row : {
           Row{"connected_slaves:0\r\n", std::nullopt, 0, false, true},
           Row{two, std::nullopt, 2, true, true},
           Row{two, std::nullopt, 1, true, false},
           Row{two, 1, 1, true, true},
           Row{two, 0, 0, false, true},
           Row{one_of_two, std::nullopt, 1, true, true},
           Row{one_of_two, 2, 1, true, false},
           Row{"connected_slaves:0\r\n", 1, 0, true, false},
       }) {
    const Scratch folder;
    Server server;
    server.replicas = row.replicas;
    server.wait = integer(row.have);
    const FakeRedis fake(folder, "s", like(server));
    lock::RedisOptions options;
    options.replicas = row.option;
    RedisSession session = session_with(fake, options);
    INFO(row.replicas << row.have << " of " << row.option.value_or(-1));
    CHECK(trouble_of(session).empty() == row.acquires);
    CHECK((fake.count("WAIT") > 0) == row.waits);
  }
}

TEST_CASE("a replica that went away still counts on the same server") {
  const Scratch folder;
  const std::string online = "connected_slaves:1\r\nslave0:ip=h,port=1,state=online,lag=0\r\n";
  const FakeRedis fake(folder, "s", [online, n = 0](const RedisWords& words) mutable {
    Server server;
    n += words[0] == "EVALSHA" ? 1 : 0;
    server.replicas = n == 0 ? online : "connected_slaves:0\r\n";
    server.wait = integer(n == 1 ? 1 : 0);
    server.script = n == 1 ? server.script : integer(1); // an acquisition, renewals
    return like(server)(words);
  });
  RedisSession session = session_with(fake);
  REQUIRE(std::holds_alternative<RedisAcquired>(session.acquire("v")));
  // It may be this server that was cut off from the replica, and not the replica that is gone.
  CHECK_THROWS_AS(session.renew("v"), RedisUnreachable);
}

TEST_CASE("a renewal says when it was sent, and none is none") {
  const Scratch folder;
  Server ours;
  ours.script = integer(1);
  const FakeRedis yes(folder, "yes", like(ours));
  RedisSession session = session_with(yes);
  const auto before = os::boot_time();
  const auto sent = session.renew("v");
  REQUIRE(sent);
  CHECK(*sent >= before);
  CHECK(*sent <= os::boot_time());

  Server theirs;
  theirs.script = integer(0);
  const FakeRedis no(folder, "no", like(theirs));
  RedisSession lost = session_with(no);
  CHECK_FALSE(lost.renew("v"));
}

TEST_CASE("a connection that broke is made again by the next request") {
  const Scratch folder;
  const FakeRedis fake(folder, "s", [n = 0](const RedisWords& words) mutable {
    Server server;
    server.script = integer(1);
    n += words[0] == "EVALSHA" ? 1 : 0;
    return n == 1 && words[0] == "EVALSHA" ? std::nullopt : like(server)(words);
  });
  RedisSession session = session_with(fake);
  CHECK_THROWS_AS(session.renew("v"), RedisUnreachable);
  CHECK(session.renew("v"));
  CHECK(fake.count("CONNECT") == 2);
}

TEST_CASE("who we are and which database is said before anything else") {
  const Scratch folder;
  const FakeRedis fake(folder, "s", like({}));
  lock::RedisOptions options;
  options.url.user = "u";
  options.url.password = "p";
  options.url.database = 3;
  RedisSession session = session_with(fake, options);
  (void)session.acquire("v");
  const auto heard = fake.heard();
  REQUIRE(heard.size() > 3);
  CHECK(std::vector<std::string>(heard.begin(), heard.begin() + 4) ==
        std::vector<std::string>{"CONNECT", "AUTH", "SELECT", "INFO"});
}

TEST_CASE("nothing is asked where the database cannot be had") {
  const Scratch folder;
  const FakeRedis fake(folder, "s", [answer = like({})](const RedisWords& words) {
    return words[0] == "SELECT" ? test::error("ERR DB index is out of range") : answer(words);
  });
  lock::RedisOptions options;
  options.url.database = 99;
  RedisSession session = session_with(fake, options);
  CHECK(contains(trouble_of(session), "DB index"));
  CHECK(fake.count("EVALSHA") == 0);
}

TEST_CASE("a server that never answers is given up within the limit") {
  const Scratch folder;
  const FakeRedis fake(folder, "s", [](const RedisWords&) -> std::optional<std::string> {
    (void)poll(nullptr, 0, 20'000);
    return std::nullopt;
  });
  lock::RedisOptions options;
  options.url.kind = lock::RedisUrl::Kind::unix_socket;
  options.url.path = fake.path();
  options.connect_timeout = 200ms;
  RedisSession session(options);
  session.use({"lock", "mark", "token"});
  const auto before = os::boot_time();
  CHECK(contains(trouble_of(session), "timed out"));
  CHECK(os::boot_time() - before < 2s);
}

TEST_CASE("a server in a cluster that points to another is followed once") {
  // Where it points to is nobody: what counts is that it was tried, and that it ends.
  const Scratch folder;
  Server moved;
  moved.script = test::error("MOVED 3999 127.0.0.1:1");
  const FakeRedis fake(folder, "s", like(moved));
  RedisSession session = session_with(fake);
  CHECK(contains(trouble_of(session), "127.0.0.1:1"));
  CHECK(fake.count("EVALSHA") == 1);
}

TEST_CASE("answers that no Redis server gives are not taken for a lock, nor for a held one") {
  for (const std::string& answer :
       {integer(1), integer(0), bulk(""), bulk("1"), array({}), array({bulk("x")}),
        array({integer(2), bulk(""), bulk("")}), std::string("$-1\r\n"), std::string("*-1\r\n")}) {
    const Scratch folder;
    Server odd;
    odd.script = answer;
    const FakeRedis fake(folder, "s", like(odd));
    RedisSession session = session_with(fake);
    INFO(answer);
    CHECK_FALSE(trouble_of(session).empty());
  }
}
