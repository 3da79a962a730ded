#include "core/scheduled_at.hpp"
#include "refusal.hpp"
#include "zones.hpp"

#include <string>

using namespace oncerun::core;
using namespace oncerun::test;

namespace {

const auto k_now = utc(2026, 10, 26, 12);

/// Minutes since 1970 of k_now, as `date -d 2026-10-26T12:00Z +%s` divided by 60 says.
constexpr std::int64_t k_now_minutes = 29'883'600;

Refusal refused(const std::string& text) {
  return refusal_of([&text] { (void)parse_scheduled_at(text, k_now); });
}

std::string job(std::int64_t minutes) {
  return "k8s:settle-" + std::to_string(minutes);
}

} // namespace

TEST_CASE("an instant can be given as RFC 3339 or as seconds") {
  CHECK(parse_scheduled_at("2026-10-26T02:00:00+01:00", k_now) == utc(2026, 10, 26, 1));
  CHECK(parse_scheduled_at("2026-10-26 02:00:00Z", k_now) == utc(2026, 10, 26, 2));
  CHECK(parse_scheduled_at("2026-10-26T02:00:00.999Z", k_now) == utc(2026, 10, 26, 2));
  CHECK(parse_scheduled_at("@0", k_now) == utc(1970, 1, 1));
  CHECK(parse_scheduled_at("@1793016000", k_now) == k_now);
}

TEST_CASE("the suffix of a CronJob's Job is its scheduled minute") {
  CHECK(parse_scheduled_at(job(k_now_minutes), k_now) == k_now);
  CHECK(parse_scheduled_at(job(k_now_minutes - 5), k_now) == k_now - 5min);
  CHECK(parse_scheduled_at("k8s:a-b-c-" + std::to_string(k_now_minutes), k_now) == k_now);
  CHECK(parse_scheduled_at(job(k_now_minutes - 400 * 1440), k_now) == k_now - 24h * 400);
  CHECK(parse_scheduled_at(job(k_now_minutes + 1440), k_now) == k_now + 24h);
}

TEST_CASE("a suffix that is no plausible minute is refused") {
  CHECK(refused(job(k_now_minutes - 400 * 1440 - 1)).hints("use --date"));
  CHECK(refused(job(k_now_minutes + 1441)).hints("use --date"));
  // What older controllers wrote: seconds since 1970.
  CHECK(refused("k8s:settle-1793016000").says("would mean"));
  CHECK(refused(job(0)).says("would mean 1970-01-01T00:00:00Z"));
  for (const char* text :
       {"k8s:", "k8s:settle", "k8s:settle-", "k8s:settle-x", "k8s:-29883600",
        "k8s:settle-29883600-x2v4q", "k8s:29883600", "k8s:settle-99999999999999999999"}) {
    CAPTURE(text);
    CHECK(refused(text).says("is not the name of a CronJob's Job"));
  }
}

TEST_CASE("what is no instant is refused") {
  for (const char* text :
       {"", "@", "@-1", "@1.5", "@1x", "1793016000", "now", "2026-10-26", "2026-10-26T02:00:00",
        "@99999999999999999999", "@253402300800", "K8S:settle-29883600"}) {
    CAPTURE(text);
    CHECK(refused(text).says("is not an instant"));
  }
}

TEST_CASE("nothing more than a day ahead is believed") {
  CHECK(parse_scheduled_at("2026-10-27T12:00:00Z", k_now) == k_now + 24h);
  CHECK(refused("2026-10-27T12:00:01Z").says("more than a day ahead"));
  CHECK(refused("@1793102401").hints("2026-10-26T12:00:00Z"));
}
