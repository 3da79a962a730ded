#include "core/redact.hpp"
#include "support/catch.hpp"

#include <string>

using oncerun::core::redact;

namespace {

struct Row {
  const char* given;
  const char* shown;
};

} // namespace

TEST_CASE("the password of a URL is masked") {
  for (const Row& row : {
           Row{"redis://user:secret@h", "redis://user:***@h"},
           Row{"redis://:secret@h:6379/0", "redis://:***@h:6379/0"},
           Row{"rediss://u:s@h1:26379,h2:26379/m/0", "rediss://u:***@h1:26379,h2:26379/m/0"},
           Row{"redis+sentinel://:s@h1,h2/m", "redis+sentinel://:***@h1,h2/m"},
           Row{"postgresql://u:s%40x@[::1]:5432/db?sslmode=require",
               "postgresql://u:***@[::1]:5432/db?sslmode=require"},
           Row{"mysql://u:a:b:c@h/db", "mysql://u:***@h/db"},
           Row{"cannot reach redis://u:s@h: refused", "cannot reach redis://u:***@h: refused"},
           Row{"redis://u:s@h, then mysql://v:t@i/db", "redis://u:***@h, then mysql://v:***@i/db"},
           Row{"\"redis://u:s@h\" and a@b", "\"redis://u:***@h\" and a@b"},
           Row{"redis://u:password=x@h/0", "redis://u:***@h/0"},
       }) {
    CHECK(redact(row.given) == row.shown);
  }
}

TEST_CASE("a password that should have been encoded is masked all the same") {
  for (const Row& row : {
           Row{"redis://u:p@ss@h/0", "redis://u:***@h/0"},
           Row{"redis://u:p/ss@h/0", "redis://u:***@h/0"},
           Row{"redis://u:p@s/s@h/0", "redis://u:***@h/0"},
           Row{"redis://u:p?ss@h/0", "redis://u:***@h/0"},
           Row{"redis://u:p#ss@h/0", "redis://u:***@h/0"},
           Row{"redis://u@x:pw@h/0", "redis://u@x:***@h/0"},
       }) {
    CHECK(redact(row.given) == row.shown);
  }
}

TEST_CASE("passwords among parameters and keywords are masked") {
  for (const Row& row : {
           Row{"postgresql://h/db?user=u&password=s&x=1",
               "postgresql://h/db?user=u&password=***&x=1"},
           Row{"postgresql://h/db?password=s", "postgresql://h/db?password=***"},
           Row{"redis://h/0?sentinel_password=s&db=1", "redis://h/0?sentinel_password=***&db=1"},
           Row{"postgresql://h/db?sslpassword=a%26b&x=1", "postgresql://h/db?sslpassword=***&x=1"},
           Row{"mysql://u:s@h/db?password=t", "mysql://u:***@h/db?password=***"},
           Row{"host=h password=s dbname=d", "host=h password=*** dbname=d"},
           Row{"password='a b' host=h", "password=*** host=h"},
           Row{"password='it\\'s' host=h", "password=*** host=h"},
           Row{"password = s host=h", "password = *** host=h"},
           Row{"password=a\\ b host=h", "password=*** host=h"},
           Row{"password=a&b host=h", "password=*** host=h"},
           Row{"host=h PASSWORD=s", "host=h PASSWORD=***"},
           Row{"passwd=s pwd=t", "passwd=*** pwd=***"},
           Row{"password='never closed", "password=***"},
           Row{"user='a password=' password='se cret' host=h", "user='a password=*** host=h"},
           Row{"user='pwd=' password=se\\ cret host=h", "user='pwd=***"},
       }) {
    CHECK(redact(row.given) == row.shown);
  }
}

TEST_CASE("nothing else is changed") {
  for (const char* text :
       {"", "redis://h", "redis://h:6379/0", "redis://user@h:6379/0",
        "redis+unix:///run/redis.sock", "redis://[::1]:6379/0", "redis://h:6379/0?mail=a@b",
        "redis://h1:26379,h2:26379/m?x=a@b", "sqlite:/var/lib/oncerun/ledger.db", "/var/lib/a:b@c",
        "host=h passfile=/root/.pgpass", "the password is wrong", "a==b", "=", "://", "x://",
        "user=password host=h"}) {
    CHECK(redact(text) == text);
  }
}

TEST_CASE("masking twice is masking once") {
  for (const char* text :
       {"redis://user:secret@h", "password='a b' host=h", "mysql://u:s@h/db?password=t&x=1"}) {
    CHECK(redact(redact(text)) == redact(text));
  }
}
