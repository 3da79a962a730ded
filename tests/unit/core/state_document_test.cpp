#include "core/state_document.hpp"
#include "support/catch.hpp"

#include <string>
#include <vector>

using namespace oncerun::core;
using Status = StateDocument::Status;

namespace {

/// Why a text cannot be read as a state document.
std::string why(const std::string& text) {
  try {
    (void)parse_state(text);
  } catch (const StateDocumentError& error) {
    return error.what();
  }
  return "it was read";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The smallest document with one more key.
std::string with(const std::string& member) {
  return R"({"lastPublishedDate": "2026-10-26", "status": "done", )" + member + "}";
}

} // namespace

TEST_CASE("the three fields that other scripts write are enough") {
  const StateDocument document = parse_state(
      R"({"lastPublishedDate": "2026-10-26", "status": "pending", "pendingDate": "2026-10-27"})");
  CHECK(document.last_published == BizDate("2026-10-26"));
  CHECK(document.status == Status::pending);
  CHECK(document.pending_date == BizDate("2026-10-27"));
  CHECK(document.job.empty());
  CHECK(document.every.empty());
  CHECK(document.end_recorded);
  CHECK(document.generation == 1);
  CHECK(document.unknown_keys == "{}");
}

TEST_CASE("every status is read") {
  const auto status = [](const char* name) {
    return parse_state(std::string(R"({"status": ")") + name +
                       R"(", "pendingDate": "2026-10-26",)" +
                       R"("lastPublishedDate": "2026-10-26"})")
        .status;
  };
  CHECK(status("pending") == Status::pending);
  CHECK(status("done") == Status::done);
  CHECK(status("failed") == Status::failed);
  CHECK(status("unknown") == Status::unknown);
}

TEST_CASE("null is absent") {
  const StateDocument document = parse_state(
      R"({"lastPublishedDate": "2026-10-26", "status": "done", "pendingDate": null, "exitCode": null, "job": null})");
  CHECK(document.last_published == BizDate("2026-10-26"));
  CHECK_FALSE(document.pending_date);
  CHECK_FALSE(document.exit_code);
  CHECK(document.job.empty());
  const StateDocument nothing = parse_state("{}");
  CHECK_FALSE(nothing.last_published);
  CHECK(nothing.status == Status::none);
}

TEST_CASE("a byte order mark, CRLF and spaces around are fine") {
  CHECK(parse_state("\xEF\xBB\xBF{\r\n\"lastPublishedDate\": \"2026-10-26\"\r\n}\r\n")
            .last_published == BizDate("2026-10-26"));
  CHECK(parse_state("\n\t {\"lastPublishedDate\": \"2026-10-26\"} \n").last_published ==
        BizDate("2026-10-26"));
}

TEST_CASE("what cannot be read as a state document is not a first run") {
  CHECK(why("") == "it is empty");
  CHECK(why(" \r\n") == "it is empty");
  CHECK(why("\xEF\xBB\xBF") == "it is empty");
  CHECK(why("{\"lastPubl") == "byte 11: not valid JSON");
  CHECK(why(std::string(200, '\0')) == "byte 1: a NUL byte");
  CHECK(why(std::string("{}\0{}", 5)) == "byte 3: a NUL byte");
  CHECK(why("[]") == "it is not a JSON object");
  CHECK(why("\"done\"") == "it is not a JSON object");
  CHECK(why("null") == "it is not a JSON object");
  CHECK(why("{} x") == "byte 4: not valid JSON");
  CHECK(why("{}{}") == "byte 3: not valid JSON");
  CHECK(contains(why("{\"status\": \"done\",}"), "not valid JSON"));
  CHECK(contains(why("{'status': 'done'}"), "not valid JSON"));
  CHECK(contains(why("{\"note\": \"\xFF\"}"), "not valid JSON"));
  CHECK(why(with("\"x\": 1e999")) == "a number in it is out of range");
}

TEST_CASE("a byte is counted from the file's first, mark included") {
  CHECK(why("\xEF\xBB\xBF{x") == "byte 5: not valid JSON");
  CHECK(why("{x") == "byte 2: not valid JSON");
}

TEST_CASE("a key of ours stands there once") {
  CHECK(why(R"({"status": "done", "status": "failed"})") == "status stands there twice");
  CHECK(why(R"({"lastPublishedDate": "2026-10-26", "lastPublishedDate": null})") ==
        "lastPublishedDate stands there twice");
  CHECK(why(with(R"("pid": 1, "pid": 2)")) == "pid stands there twice");
  // Inside a foreign value the same words mean nothing.
  CHECK(why(with(R"("x": {"status": 1, "pid": 2}, "y": {"status": 3})")) == "it was read");
}

TEST_CASE("values have their types") {
  CHECK(why(R"({"status": 1})") == "status is not a string");
  CHECK(why(R"({"status": "zzz"})") == "status is \"zzz\"");
  CHECK(why(R"({"status": "Done"})") == "status is \"Done\"");
  CHECK(why(R"({"status": "a\nb"})") == "status is \"a\\x0ab\"");
  CHECK(why(R"({"lastPublishedDate": 20261026})") == "lastPublishedDate is not a string");
  CHECK(why(R"({"pendingDate": ["2026-10-26"]})") == "pendingDate is not a string");
  CHECK(why(with(R"("job": 1)")) == "job is not a string");
  CHECK(why(with(R"("note": {})")) == "note is not a string");
  CHECK(why(with(R"("ready": 1)")) == "ready is neither true nor false");
  CHECK(why(with(R"("endRecorded": "no")")) == "endRecorded is neither true nor false");
  CHECK(why(with(R"("skippedDate": true)")) == "skippedDate is not a string");
  for (const char* key :
       {"token", "serial", "attempts", "generation", "pidNamespace", "pid", "exitCode", "signal"}) {
    CAPTURE(key);
    const std::string member = std::string("\"") + key + "\": ";
    CHECK(why(with(member + "\"1\"")) == std::string(key) + " is not a whole number");
    CHECK(why(with(member + "1.5")) == std::string(key) + " is not a whole number");
    CHECK(why(with(member + "true")) == std::string(key) + " is not a whole number");
    CHECK(why(with(member + "-1")) == std::string(key) + " is out of range");
    CHECK(why(with(member + "1")) == "it was read");
  }
  CHECK(why(with(R"("exitCode": 256)")) == "exitCode is out of range");
  CHECK(why(with(R"("signal": 65)")) == "signal is out of range");
  CHECK(why(with(R"("generation": 0)")) == "generation is out of range");
  // What is counted on from there has room for that.
  CHECK(why(with(R"("attempts": 2147483647)")) == "attempts is out of range");
  CHECK(why(with(R"("generation": 2147483647)")) == "generation is out of range");
  CHECK(why(with(R"("token": 9223372036854775807)")) == "token is out of range");
  CHECK(why(with(R"("token": 9223372036854775808)")) == "token is out of range");
  CHECK(why(with(R"("serial": 9223372036854775807)")) == "serial is out of range");
  CHECK(why(with(R"("pid": 2147483648)")) == "pid is out of range");
}

TEST_CASE("dates are texts of a plausible length without control characters") {
  CHECK(contains(why(R"({"lastPublishedDate": ""})"), "which is no date"));
  CHECK(contains(why(R"({"lastPublishedDate": "a\nb"})"), "which is no date"));
  CHECK(contains(why(R"({"lastPublishedDate": "a\u0000b"})"), "which is no date"));
  CHECK(contains(why(R"({"pendingDate": ")" + std::string(513, 'x') + "\"}"), "which is no date"));
  CHECK(why(R"({"pendingDate": ")" + std::string(512, 'x') + "\"}") == "it was read");
}

TEST_CASE("the three fields together leave no doubt about the date they speak of") {
  CHECK(parse_state(R"({"pendingDate": "2026-10-27"})").status == Status::pending);
  CHECK(why(R"({"lastPublishedDate": "2026-10-26", "status": "pending"})") ==
        "the status is in doubt, but there is no pendingDate");
  CHECK(contains(why(R"({"status": "unknown"})"), "no pendingDate"));
  CHECK(why(R"({"lastPublishedDate": "2026-10-26", "status": "failed"})") == "it was read");
  CHECK(
      why(R"({"lastPublishedDate": "2026-10-26", "status": "done", "pendingDate": "2026-10-26"})") ==
      "it was read");
  CHECK(
      why(R"({"lastPublishedDate": "2026-10-26", "status": "done", "pendingDate": "2026-10-25"})") ==
      "it was read");
  CHECK(contains(
      why(R"({"lastPublishedDate": "2026-10-26", "status": "done", "pendingDate": "2026-10-27"})"),
      "later than lastPublishedDate"));
  CHECK(contains(why(R"({"status": "done", "pendingDate": "2026-10-27"})"),
                 "later than lastPublishedDate"));
}

TEST_CASE("nesting has a limit, so that printing cannot run out of stack") {
  const auto nested = [](std::size_t depth) {
    return with("\"x\": " + std::string(depth, '[') + std::string(depth, ']'));
  };
  CHECK(why(nested(60)) == "it was read");
  CHECK(why(nested(70)) == "it is nested more than 64 deep");
  CHECK(why(nested(300'000)) == "it is nested more than 64 deep");
}

TEST_CASE("three fields are printed as three fields") {
  StateDocument document;
  document.last_published = BizDate("2026-10-26");
  document.status = Status::pending;
  document.pending_date = BizDate("2026-10-27");
  CHECK(print_state(document) == "{\n"
                                 "  \"lastPublishedDate\": \"2026-10-26\",\n"
                                 "  \"status\": \"pending\",\n"
                                 "  \"pendingDate\": \"2026-10-27\"\n"
                                 "}\n");
  CHECK(print_state(StateDocument{}) == "{}\n");
}

TEST_CASE("job and period follow, then what the file alone must remember, then foreign keys") {
  StateDocument document;
  document.last_published = BizDate("2026-10-26");
  document.status = Status::done;
  document.job = "s\xC3\xBC"
                 "d";
  document.every = "day";
  document.attempts = 2;
  document.unknown_keys = R"({"zeta": [1, 2.5], "alpha": {"b": null, "a": "x"}})";
  CHECK(print_state(document) == "{\n"
                                 "  \"lastPublishedDate\": \"2026-10-26\",\n"
                                 "  \"status\": \"done\",\n"
                                 "  \"job\": \"s\xC3\xBC"
                                 "d\",\n"
                                 "  \"every\": \"day\",\n"
                                 "  \"attempts\": 2,\n"
                                 "  \"zeta\": [\n"
                                 "    1,\n"
                                 "    2.5\n"
                                 "  ],\n"
                                 "  \"alpha\": {\n"
                                 "    \"b\": null,\n"
                                 "    \"a\": \"x\"\n"
                                 "  }\n"
                                 "}\n");
}

TEST_CASE("every member makes the round trip") {
  StateDocument document;
  document.last_published = BizDate("2026-10-26");
  document.status = Status::unknown;
  document.pending_date = BizDate("2026-10-27");
  document.job = "settle";
  document.every = "day";
  document.zone = "Europe/Berlin";
  document.skipped_date = BizDate("2026-10-20");
  document.run_id = "cf116664-c0e0-5463-b4a9-c82ff27bfe2d";
  document.token = 4611686018427387903;
  document.serial = 7;
  document.attempts = 3;
  document.generation = 2;
  document.never_started = true;
  document.ready = true;
  document.end_recorded = false;
  document.host = "h";
  document.machine_id = "m";
  document.boot_id = "b";
  document.life_id = "l";
  document.pid_namespace = 18446744073709551615U;
  document.pid = 4711;
  document.started_at = "2026-10-27T01:00:00.000Z";
  document.updated_at = "2026-10-27T01:00:01.000Z";
  document.exit_code = 0;
  document.signal = 9;
  document.note = "line \"one\"\nline two";
  document.unknown_keys = R"({"x":1})";

  const std::string text = print_state(document);
  const StateDocument again = parse_state(text);
  CHECK(again.last_published == document.last_published);
  CHECK(again.status == document.status);
  CHECK(again.pending_date == document.pending_date);
  CHECK(again.job == document.job);
  CHECK(again.every == document.every);
  CHECK(again.zone == document.zone);
  CHECK(again.skipped_date == document.skipped_date);
  CHECK(again.run_id == document.run_id);
  CHECK(again.token == document.token);
  CHECK(again.serial == document.serial);
  CHECK(again.attempts == document.attempts);
  CHECK(again.generation == document.generation);
  CHECK(again.never_started == document.never_started);
  CHECK(again.ready == document.ready);
  CHECK(again.end_recorded == document.end_recorded);
  CHECK(again.host == document.host);
  CHECK(again.machine_id == document.machine_id);
  CHECK(again.boot_id == document.boot_id);
  CHECK(again.life_id == document.life_id);
  CHECK(again.pid_namespace == document.pid_namespace);
  CHECK(again.pid == document.pid);
  CHECK(again.started_at == document.started_at);
  CHECK(again.updated_at == document.updated_at);
  CHECK(again.exit_code == document.exit_code);
  CHECK(again.signal == document.signal);
  CHECK(again.note == document.note);
  CHECK(again.unknown_keys == document.unknown_keys);
  CHECK(print_state(again) == text);
}

TEST_CASE("a text that is not UTF-8 does not cost the file") {
  StateDocument document;
  document.last_published = BizDate("2026-10-26");
  document.host = "h\xFF";
  CHECK(parse_state(print_state(document)).last_published == document.last_published);
}

TEST_CASE("a foreign key cannot pass for one of ours") {
  StateDocument document;
  document.last_published = BizDate("2026-10-26");
  document.unknown_keys = R"({"lastPublishedDate": "2999-01-01", "pid": 1, "x": 2})";
  const StateDocument again = parse_state(print_state(document));
  CHECK(again.last_published == BizDate("2026-10-26"));
  CHECK(again.pid == 0);
  CHECK(again.unknown_keys == R"({"x":2})");
}

TEST_CASE("a file of another job or period is noticed") {
  StateDocument document;
  CHECK(why_not_this_job(document, "settle", "day").empty());
  document.job = "settle";
  document.every = "day";
  CHECK(why_not_this_job(document, "settle", "day").empty());
  CHECK(why_not_this_job(document, "other", "day") == "it belongs to the job \"settle\"");
  CHECK(why_not_this_job(document, "settle", "hour") == "its period is \"day\", not hour");
}
