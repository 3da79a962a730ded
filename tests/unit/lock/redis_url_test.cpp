#include "lock/redis_url.hpp"
#include "support/catch.hpp"
#include "unit/core/refusal.hpp"

#include <string>

using namespace oncerun;
using lock::describe;
using lock::is_redis_url;
using lock::parse_redis_url;
using lock::RedisEndpoint;
using lock::RedisUrl;
using Kind = lock::RedisUrl::Kind;

namespace {

const std::string k_secret = "s3cret";

RedisUrl parse(const std::string& text) {
  return parse_redis_url(text);
}

} // namespace

TEST_CASE("a Redis URL is told by its scheme") {
  for (const char* url : {"redis://h", "rediss://h", "redis+unix:///s", "redis+sentinel://h/m",
                          "redis://" /* for its own error */}) {
    CHECK(is_redis_url(url));
  }
  for (const char* text : {"", "redis", "redis:", "redis:/h", "REDIS://h", " redis://h",
                           "redis+tls://h", "flock", "flock:redis://h", "postgresql://h"}) {
    CHECK_FALSE(is_redis_url(text));
  }
}

TEST_CASE("host, port and database of a Redis URL") {
  struct Row {
    const char* url;
    Kind kind;
    const char* host;
    int port;
    int database;
  };
  for (const Row& row : {
           Row{"redis://h", Kind::tcp, "h", 6379, 0},
           Row{"redis://h/", Kind::tcp, "h", 6379, 0},
           Row{"redis://h:1/2", Kind::tcp, "h", 1, 2},
           Row{"redis://10.0.0.1:65535/15", Kind::tcp, "10.0.0.1", 65535, 15},
           Row{"redis://[::1]", Kind::tcp, "::1", 6379, 0},
           Row{"redis://[fe80::1]:7000/3", Kind::tcp, "fe80::1", 7000, 3},
           Row{"rediss://h", Kind::tls, "h", 6379, 0},
           Row{"rediss://h.example.:6380", Kind::tls, "h.example.", 6380, 0},
       }) {
    INFO(row.url);
    const RedisUrl url = parse(row.url);
    CHECK(url.kind == row.kind);
    REQUIRE(url.endpoints.size() == 1);
    CHECK(url.endpoints.front() == RedisEndpoint{row.host, row.port});
    CHECK(url.database == row.database);
    CHECK(url.user.empty());
    CHECK(url.password.empty());
  }
}

TEST_CASE("user and password of a Redis URL") {
  struct Row {
    const char* url;
    const char* user;
    const char* password;
  };
  for (const Row& row : {
           Row{"redis://:p@h", "", "p"},
           Row{"redis://u:p@h", "u", "p"},
           Row{"redis://u:p:q@h", "u", "p:q"},
           Row{"redis://u:p@ss@h", "u", "p@ss"},
           Row{"redis://u%3A:p%40%2f%25@h", "u:", "p@/%"},
           Row{"redis://u:%00x@h", "u", "\0x"},
           Row{"rediss://u:p@h", "u", "p"},
           Row{"redis+unix://u:p@/run/r.sock", "u", "p"},
           Row{"redis+unix://:p@/run/a@b.sock", "", "p"},
           Row{"redis+sentinel://u:p@h1,h2/m", "u", "p"},
       }) {
    INFO(row.url);
    const RedisUrl url = parse(row.url);
    CHECK(url.user == row.user);
    if (std::string(row.url).find("%00") == std::string::npos) {
      CHECK(url.password == row.password);
    } else {
      CHECK(url.password == std::string("\0x", 2));
    }
  }
}

TEST_CASE("a Redis URL with a user alone: the password comes from elsewhere") {
  for (const char* text : {"redis://u@h", "redis://u:@h", "redis+unix://u@/run/r.sock"}) {
    INFO(text);
    const RedisUrl url = parse(text);
    CHECK(url.user == "u");
    CHECK(url.password.empty());
  }
}

TEST_CASE("a Redis URL of a socket") {
  struct Row {
    const char* url;
    const char* path;
    int database;
  };
  for (const Row& row : {
           Row{"redis+unix:///run/r.sock", "/run/r.sock", 0},
           Row{"redis+unix:///run/r.sock?db=3", "/run/r.sock", 3},
           Row{"redis+unix:///run/a@b:c.sock", "/run/a@b:c.sock", 0},
           Row{"redis+unix://relative.sock", "relative.sock", 0},
       }) {
    INFO(row.url);
    const RedisUrl url = parse(row.url);
    CHECK(url.kind == Kind::unix_socket);
    CHECK(url.path == row.path);
    CHECK(url.database == row.database);
    CHECK(url.endpoints.empty());
  }
}

TEST_CASE("a Redis URL of sentinels") {
  const RedisUrl one = parse("redis+sentinel://h/main");
  CHECK(one.kind == Kind::sentinel);
  CHECK(one.endpoints == std::vector<RedisEndpoint>{{"h", 26379}});
  CHECK(one.master == "main");
  CHECK(one.database == 0);

  const RedisUrl three = parse("redis+sentinel://u:p@h1:1,[::2]:2,h3/my%20main/4");
  CHECK(three.endpoints == std::vector<RedisEndpoint>{{"h1", 1}, {"::2", 2}, {"h3", 26379}});
  CHECK(three.master == "my main");
  CHECK(three.database == 4);
  CHECK(three.password == "p");
}

TEST_CASE("a Redis URL that is none is refused, and its password not repeated") {
  for (const std::string url : {"redis://",
                                "redis:///1",
                                "redis://:1",
                                "redis://h:",
                                "redis://h:x",
                                "redis://h:-1",
                                "redis://h:65536",
                                "redis://h:99999999999999999999",
                                "redis://h/x",
                                "redis://h/-1",
                                "redis://h/1/2",
                                "redis://h/1x",
                                "redis://h/99999999999",
                                "redis://[::1",
                                "redis://[::1]x",
                                "redis://[]",
                                "redis://:s3cret@",
                                "redis://u:s3cret@:6379",
                                "redis://u:s3cret@h:x",
                                "redis://u:s3cret@h/x",
                                "redis://u:s3cret%@h",
                                "redis://u:s3cret%4@h",
                                "redis://u:s3cret%zz@h",
                                "redis+unix://",
                                "redis+unix://?db=1",
                                "redis+unix://:s3cret@",
                                "redis+unix:///s?db=",
                                "redis+unix:///s?db=x",
                                "redis+unix:///s?other=1",
                                "redis+sentinel://",
                                "redis+sentinel://h",
                                "redis+sentinel://h/",
                                "redis+sentinel://h//1",
                                "redis+sentinel://h,/m",
                                "redis+sentinel://,h/m",
                                "redis+sentinel://h:x/m",
                                "redis+sentinel://u:s3cret@h/m/x",
                                "redis+sentinel://u:s3cret@/m",
                                "etcd://u:s3cret@h"}) {
    INFO(url);
    const test::Refusal refusal = test::refusal_of([&] { (void)parse_redis_url(url); });
    CHECK_FALSE(refusal.says(k_secret));
    CHECK_FALSE(refusal.hints(k_secret));
    CHECK(refusal.hints("redis://"));
  }
}

TEST_CASE("a password with a slash is not taken apart and told in pieces") {
  for (const std::string url : {"redis://u:s3cret/x@h:y", "redis://u:a/s3cret@h/z"}) {
    INFO(url);
    const test::Refusal refusal = test::refusal_of([&] { (void)parse_redis_url(url); });
    CHECK_FALSE(refusal.says(k_secret));
  }
}

TEST_CASE("a Redis URL in messages has neither user nor password") {
  struct Row {
    const char* url;
    const char* shown;
  };
  for (const Row& row : {
           Row{"redis://u:s3cret@h", "redis://h:6379"},
           Row{"redis://h:1/2", "redis://h:1/2"},
           Row{"redis://:s3cret@[::1]:7", "redis://[::1]:7"},
           Row{"rediss://h", "rediss://h:6379"},
           Row{"redis+unix://:s3cret@/run/r.sock?db=2", "redis+unix:///run/r.sock?db=2"},
           Row{"redis+sentinel://u:s3cret@h1,h2:2/m/3", "redis+sentinel://h1:26379,h2:2/m/3"},
       }) {
    INFO(row.url);
    const std::string shown = describe(parse(row.url));
    CHECK(shown == row.shown);
    CHECK_NOTHROW(parse(shown));
  }
}
