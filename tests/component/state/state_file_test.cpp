#include "core/error.hpp"
#include "state/state_file.hpp"
#include "support/catch.hpp"
#include "support/scratch.hpp"

#include <sched.h>
#include <sys/mount.h>

#include <iostream>

using namespace oncerun;
using test::Forked;
using test::Scratch;
using Names = std::vector<std::string>;

namespace {

constexpr uid_t k_nobody = 65534;

/// Days of 2026-10 up to the 28th have begun.
bool is_valid(const core::BizDate& date) {
  return date.label().size() == 10 && date.label().starts_with("2026-10-") &&
         date.label() <= "2026-10-28";
}

/// "absent", "read", or why not.
std::string reading_of(const std::string& path, const std::string& job = "settle",
                       const std::string& every = "day") {
  const state::Reading reading = state::read_state(path, job, every, is_valid);
  if (std::holds_alternative<state::Absent>(reading)) {
    return "absent";
  }
  if (const auto* broken = std::get_if<state::Unreadable>(&reading)) {
    return broken->why.empty() ? "no reason given" : broken->why;
  }
  return "read";
}

core::StateDocument document_in(const std::string& path) {
  return std::get<core::StateDocument>(state::read_state(path, "", "", {}));
}

state::Projection projection(const std::string& path) {
  return {path, "settle", "day", is_valid};
}

core::StateDocument projected(const std::string& last, core::StateDocument::Status status,
                              const std::string& pending = "") {
  core::StateDocument document;
  document.last_published = core::BizDate(last);
  document.status = status;
  if (!pending.empty()) {
    document.pending_date = core::BizDate(pending);
  }
  document.job = "settle";
  document.every = "day";
  return document;
}

using Status = core::StateDocument::Status;

template<typename Action>
std::string refusal_of(Action&& action, core::Outcome outcome) {
  try {
    action();
  } catch (const core::Error& error) {
    CHECK(core::name_of(error.outcome()) == core::name_of(outcome));
    return error.what();
  }
  FAIL("nothing was thrown");
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("what can be read as a state file") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  CHECK(reading_of(path) == "absent");
  REQUIRE(symlink("nowhere", path.c_str()) == 0);
  CHECK(reading_of(path) == "absent");
  unlink(path.c_str());
  for (
      const std::string& text : std::initializer_list<std::string>{
          R"({"lastPublishedDate": "2026-10-26"})",
          R"({"lastPublishedDate": "2026-10-26", "status": "done"})",
          R"({"lastPublishedDate": "2026-10-26", "status": "done", "pendingDate": "2026-10-26"})",
          R"({"lastPublishedDate": "2026-10-26", "status": "pending", "pendingDate": "2026-10-27"})",
          R"({"status": "failed", "pendingDate": "2026-10-27"})",
          "\xEF\xBB\xBF{\r\n\"lastPublishedDate\": \"2026-10-26\",\r\n\"other\": [1]\r\n}\r\n",
          R"({"lastPublishedDate": "2026-10-26", "job": "settle", "every": "day"})",
      }) {
    INFO(text);
    test::write_text(path, text);
    CHECK(reading_of(path) == "read");
  }
}

TEST_CASE("what cannot be read as a state file is unknown, not absent") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  for (
      const std::string& text : {
          std::string(),
          std::string(R"({"lastPubl)"),
          std::string(200, '\0'),
          std::string(R"({"lastPublishedDate": 20261026})"),
          std::string(R"({"lastPublishedDate": "2026-10-26", "status": "zzz"})"),
          std::string(R"({"lastPublishedDate": "2999-01-01", "status": "done"})"),
          std::string(R"({"lastPublishedDate": "2026-10-29"})"),
          std::string(R"({"lastPublishedDate": "2026-W44"})"),
          std::string(R"({"status": "pending", "pendingDate": "2026-10-31"})"),
          std::string(R"({"status": "pending"})"),
          std::string(R"({"lastPublishedDate": "2026-10-26", "status": "unknown"})"),
          std::string(
              R"({"lastPublishedDate": "2026-10-26", "status": "done", "pendingDate": "2026-10-27"})"),
          std::string(R"({"name": "some package", "version": "1.0.0"})"),
          std::string("{}"),
          std::string("[]"),
          std::string(R"({"lastPublishedDate": "2026-10-26"} {})"),
          std::string(R"({"lastPublishedDate": "2026-10-26", "skippedDate": "2027-01-01"})"),
      }) {
    INFO(text);
    test::write_text(path, text);
    const std::string reading = reading_of(path);
    CHECK(reading != "read");
    CHECK(reading != "absent");
    CHECK(reading != "no reason given");
    CHECK(test::read_text(path) == text);
  }
}

TEST_CASE("the pending date of a finished run is dropped") {
  const Scratch folder;
  test::write_text(folder / "st.json", R"({"lastPublishedDate": "2026-10-26", "status": "done",
                                           "pendingDate": "2026-10-26"})");
  CHECK_FALSE(document_in(folder / "st.json").pending_date);
}

TEST_CASE("a file of another job or period is refused") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  test::write_text(path, R"({"lastPublishedDate": "2026-10-26", "job": "other", "every": "day"})");
  CHECK(refusal_of([&] { (void)reading_of(path); }, core::Outcome::config) ==
        path + " is the state file of job other, not of settle");
  CHECK(reading_of(path, "") == "read");
  CHECK(refusal_of([&] { (void)reading_of(path, "other", "hour"); }, core::Outcome::config) ==
        path + " is the state file of the period day, not of hour");
  CHECK(reading_of(path, "other", "") == "read");
}

TEST_CASE("a file that may not be read is an error, not absent") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  test::write_text(path, R"({"lastPublishedDate": "2026-10-26"})");
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  REQUIRE(chmod(folder.path().c_str(), 0755) == 0);
  CHECK(Forked([&] {
          if (seteuid(k_nobody) != 0) {
            return 3;
          }
          const std::string text =
              refusal_of([&] { (void)reading_of(path); }, core::Outcome::unwritable);
          return contains(text, path) && contains(text, "owned by root (uid 0), mode 0600") ? 0 : 1;
        }).wait() == 0);
  REQUIRE(mkdir((folder / "d").c_str(), 0700) == 0);
  CHECK_THROWS_AS(reading_of(folder / "d"), core::Error);
}

TEST_CASE("a projection writes what the ledger says, and keeps the file's own keys") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  state::Projection file = projection(path);
  CHECK_FALSE(file.write(projected("2026-10-26", Status::pending, "2026-10-27")));
  CHECK(document_in(path).last_published == core::BizDate("2026-10-26"));
  CHECK(document_in(path).pending_date == core::BizDate("2026-10-27"));
  CHECK(document_in(path).status == Status::pending);

  test::write_text(path, R"({"zeta": 1, "lastPublishedDate": "2026-10-26", "alpha": {"b": null}})");
  file.reserve();
  CHECK_FALSE(file.write(projected("2026-10-27", Status::done)));
  CHECK(document_in(path).last_published == core::BizDate("2026-10-27"));
  CHECK(document_in(path).unknown_keys == R"({"zeta":1,"alpha":{"b":null}})");
  CHECK(test::names_in(folder.path()) == Names{"st.json"});
}

TEST_CASE("the last date never goes back") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  test::write_text(path, R"({"lastPublishedDate": "2026-10-27"})");
  CHECK_FALSE(projection(path).write(projected("2026-10-25", Status::failed, "2026-10-26")));
  CHECK(document_in(path).last_published == core::BizDate("2026-10-27"));
  CHECK(document_in(path).pending_date == core::BizDate("2026-10-26"));
  core::StateDocument nothing_done = projected("2026-10-25", Status::failed, "2026-10-26");
  nothing_done.last_published.reset();
  CHECK_FALSE(projection(path).write(nothing_done));
  CHECK(document_in(path).last_published == core::BizDate("2026-10-27"));
}

TEST_CASE("a broken file is kept aside before it is replaced") {
  const Scratch folder;
  const std::string path = folder / "real.json";
  REQUIRE(symlink("real.json", (folder / "st.json").c_str()) == 0);
  test::write_text(path, R"({"lastPubl)");
  REQUIRE(chmod(path.c_str(), 0640) == 0);
  const std::optional<std::string> aside =
      projection(folder / "st.json").write(projected("2026-10-26", Status::done));
  REQUIRE(aside);
  CHECK(aside->starts_with(path + ".broken-20"));
  CHECK(test::read_text(*aside) == R"({"lastPubl)");
  CHECK(document_in(path).last_published == core::BizDate("2026-10-26"));
  CHECK((test::status_of(path).st_mode & 07777) == 0640);
  CHECK(test::names_in(folder.path()).size() == 3);
}

TEST_CASE("two broken files are both kept") {
  const Scratch folder;
  const std::string path = folder / "st.json";
  test::write_text(path, "one");
  const std::string first = state::keep_aside(path);
  CHECK(test::read_text(path) == "one"); // until it is replaced
  unlink(path.c_str());
  test::write_text(path, "two");
  const std::string second = state::keep_aside(path);
  CHECK(first != second);
  CHECK(test::read_text(first) == "one");
  CHECK(test::read_text(second) == "two");
}

TEST_CASE("a projection that cannot be written is found out by reserving") {
  const Scratch folder;
  state::Projection nowhere = projection(folder / "no/st.json");
  CHECK(contains(refusal_of([&] { nowhere.reserve(); }, core::Outcome::unwritable), folder / "no"));
  test::write_text(folder / "st.json", R"({"lastPublishedDate": "2026-10-26", "job": "other"})");
  state::Projection other = projection(folder / "st.json");
  (void)refusal_of([&] { other.reserve(); }, core::Outcome::config);
  CHECK(test::names_in(folder.path()) == Names{"st.json"});
}

TEST_CASE("what was reserved is written on a disk that is full by then") {
  const Scratch folder;
  const int code =
      Forked([&] {
        if (unshare(CLONE_NEWNS) != 0 ||
            mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("none", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
          return 77;
        }
        const std::string path = folder / "st.json";
        test::write_text(path, R"({"lastPublishedDate": "2026-10-25", "own": ")" +
                                   std::string(20'000, 'x') + R"("})");
        state::Projection file = projection(path);
        file.reserve();
        test::write_text(folder / "ballast", std::string(2 << 20, 'x'));
        state::Projection late = projection(path);
        (void)refusal_of([&] { late.reserve(); }, core::Outcome::unwritable);
        (void)file.write(projected("2026-10-26", Status::done));
        const bool written = document_in(path).last_published == core::BizDate("2026-10-26");
        return written && test::names_in(folder.path()) == Names{"ballast", "st.json"} ? 0 : 1;
      }).wait();
  if (code == 77) {
    std::cerr << "skipped: no mount namespace is permitted here\n";
  } else {
    CHECK(code == 0);
  }
}
