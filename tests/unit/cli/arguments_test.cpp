#include "cli/arguments.hpp"
#include "support/catch.hpp"
#include "unit/core/refusal.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace oncerun;
using cli::Arguments;
using cli::split_arguments;
using cli::SplitArguments;
using test::Refusal;

namespace {

using Words = std::vector<std::string>;

/// argv as main gets it: the program's name before the words.
SplitArguments split(const Words& words) {
  std::vector<const char*> argv{"oncerun"};
  for (const std::string& word : words) {
    argv.push_back(word.c_str());
  }
  const int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  return split_arguments(argc, argv.data());
}

Arguments parse(const Words& words) {
  return Arguments::parse(split(words));
}

Refusal refusal(const Words& words) {
  return test::refusal_of([&words] { (void)parse(words); });
}

} // namespace

TEST_CASE("argv is cut at the first separator") {
  const SplitArguments cut = split({"-j", "x", "--", "cmd", "--", "-j", "y"});
  CHECK(cut.own == Words{"-j", "x"});
  CHECK(cut.has_separator);
  CHECK(cut.command == Words{"cmd", "--", "-j", "y"});
}

TEST_CASE("without a separator everything is oncerun's, and nothing is the command's") {
  const SplitArguments none = split({"status", "-j", "x"});
  CHECK(none.own == Words{"status", "-j", "x"});
  CHECK_FALSE(none.has_separator);
  CHECK(none.command.empty());

  const SplitArguments nothing = split({});
  CHECK(nothing.own.empty());
  CHECK_FALSE(nothing.has_separator);

  const SplitArguments last = split({"-j", "x", "--"});
  CHECK(last.own == Words{"-j", "x"});
  CHECK(last.has_separator);
  CHECK(last.command.empty());

  const char* const argv[] = {nullptr};
  CHECK(split_arguments(0, argv).own.empty()); // execve with an empty argv
}

TEST_CASE("the separator is found before anything is understood") {
  // A value that is "--" has to be attached: what looks like the separator is it.
  const SplitArguments cut = split({"--job", "--", "--date", "x"});
  CHECK(cut.own == Words{"--job"});
  CHECK(cut.command == Words{"--date", "x"});
  CHECK(refusal({"--job", "--", "--date", "x"}).says("--job needs a value"));
}

TEST_CASE("the command stays as it is, byte for byte") {
  const Words command{"[a,b]", "",  "a b", "\xff\xfe", "--job=x", "-h",
                      "\n",    "*", "{}",  "%%",       "++",      "'\""};
  Words words{"-j", "x", "--"};
  words.insert(words.end(), command.begin(), command.end());
  CHECK(split(words).command == command);
}

TEST_CASE("options in each of their forms") {
  for (const Words& words : {Words{"--job", "settle"}, Words{"--job=settle"}, Words{"-j", "settle"},
                             Words{"-jsettle"}}) {
    const Arguments arguments = parse(words);
    CHECK(arguments.context() == cli::k_run);
    CHECK(arguments.has("job"));
    CHECK(arguments.value("job") == "settle");
    CHECK_FALSE(arguments.has("date"));
    CHECK(arguments.value("date") == std::nullopt);
    CHECK(arguments.values("date").empty());
  }
}

TEST_CASE("a flag is there or not, and has no value") {
  const Arguments arguments = parse({"--rerun", "-v"});
  CHECK(arguments.has("rerun"));
  CHECK(arguments.has("verbose"));
  CHECK_FALSE(arguments.has("explain"));
  CHECK(arguments.value("rerun") == std::nullopt);
}

TEST_CASE("a flag that is said twice is said") {
  CHECK(parse({"-v", "--verbose"}).has("verbose"));
  CHECK(parse({"-vv"}).has("verbose"));
}

TEST_CASE("an attached value may end in its own letter, or be nothing else") {
  const std::vector<std::pair<Words, std::string>> cases{
      {{"-jj"}, "j"},   {{"-j", "j"}, "j"}, {{"-j", "jj"}, "jj"}, {{"-jobj"}, "obj"},
      {{"-jjj"}, "jj"}, {{"-jv"}, "v"},     {{"-j-j"}, "-j"},     {{"-j", "v"}, "v"}};
  for (const auto& [words, value] : cases) {
    CAPTURE(words);
    const Arguments arguments = parse(words);
    CHECK(arguments.value("job") == value);
    CHECK_FALSE(arguments.has("verbose"));
  }
  CHECK(parse({"-cexec"}).value("check") == "exec");

  // What follows is an option of its own, not the value.
  const Arguments more = parse({"-jj", "-d", "this", "-s/srv/states", "-g", "cautious"});
  CHECK(more.value("job") == "j");
  CHECK(more.value("date") == "this");
  CHECK(more.value("state") == "/srv/states");
  CHECK(more.value("guarantee") == "cautious");
}

TEST_CASE("a cluster of letters ends with the first that takes a value") {
  const Arguments attached = parse({"-vqjsettle"});
  CHECK(attached.has("verbose"));
  CHECK(attached.has("quiet"));
  CHECK(attached.value("job") == "settle");

  const Arguments next = parse({"-vj", "settle"});
  CHECK(next.has("verbose"));
  CHECK(next.value("job") == "settle");

  CHECK(refusal({"-vj"}).says("--job needs a value"));
  CHECK(refusal({"-vx"}).says("-x"));
}

TEST_CASE("values arrive as they were given") {
  for (const std::string value : {"[a,b]", "[a]", "[]", "a,b", "a b", "", "=", "a=b", "{}",
                                  "\"quoted\"", "'quoted'", "%%", "\xff", "two\nlines", "status"}) {
    CAPTURE(value);
    CHECK(parse({"--job", value}).values("job") == Words{value});
    if (!value.empty()) {
      CHECK(parse({"--job=" + value}).values("job") == Words{value});
    }
    CHECK(parse({"-j", value, "--rerun"}).values("job") == Words{value});
  }
}

TEST_CASE("what is attached and empty is a value, and takes no other word for one") {
  CHECK(parse({"--job="}).values("job") == Words{""});
  const Arguments flag = parse({"--job=", "-v"});
  CHECK(flag.values("job") == Words{""});
  CHECK(flag.has("verbose"));
  const Arguments option = parse({"--unknown-exit=", "-d", "this"});
  CHECK(option.values("unknown-exit") == Words{""});
  CHECK(option.value("date") == "this");
}

TEST_CASE("a value that begins with a dash") {
  CHECK(parse({"--check=-x"}).value("check") == "-x");
  CHECK(parse({"--check=--"}).value("check") == "--");
  CHECK(parse({"--check=--job"}).value("check") == "--job");
}

TEST_CASE("what may be repeated is kept in order, anything else is given once") {
  CHECK(parse({"--exit", "busy=0", "--exit=held=1", "--exit", "busy=2"}).values("exit") ==
        Words{"busy=0", "held=1", "busy=2"});
  for (const Words& words : {Words{"--job", "a", "--job", "b"}, Words{"-ja", "--job=b"},
                             Words{"-j", "a", "-v", "-j", "a"}, Words{"-jj", "-jj"}}) {
    CAPTURE(words);
    CHECK(refusal(words).says("--job is given twice"));
  }
}

TEST_CASE("a missing value") {
  const Refusal last = refusal({"--date", "this", "--job"});
  CHECK(last.says("--job needs a value"));
  CHECK(last.hints("--job NAME"));
  CHECK(refusal({"-j"}).says("--job needs a value"));
}

TEST_CASE("a flag takes no value") {
  CHECK(refusal({"--rerun=yes"}).says("--rerun takes no value"));
  CHECK(refusal({"--rerun="}).says("--rerun takes no value"));
  CHECK(refusal({"--rerun", "yes"}).says("'yes'"));
}

TEST_CASE("an unknown option is named, with the one that was meant") {
  const Refusal near = refusal({"--gaurantee", "cautious"});
  CHECK(near.says("--gaurantee"));
  CHECK(near.hints("--guarantee"));
  CHECK(refusal({"--jbo=x"}).hints("--job"));

  const Refusal far = refusal({"--zzzzzz"});
  CHECK(far.says("--zzzzzz"));
  CHECK_FALSE(far.hints("did you mean"));
  CHECK(far.hints("--help"));

  CHECK(refusal({"-x"}).says("-x"));
}

TEST_CASE("an option is never guessed from its beginning") {
  CHECK(refusal({"--jo", "x"}).says("--jo"));
  CHECK(refusal({"--check-a", "3"}).says("--check-a"));
  CHECK(refusal({"--Job", "x"}).says("--Job"));
}

TEST_CASE("an option of another place is unknown here") {
  CHECK(refusal({"--force"}).says("--force"));
  CHECK(refusal({"status", "--guarantee", "cautious"}).says("--guarantee"));
  CHECK(refusal({"history", "-g", "cautious"}).says("-g"));
}

TEST_CASE("subcommands of one word and of two") {
  const std::vector<std::pair<Words, cli::Context>> cases{
      {{"status"}, cli::k_status},
      {{"history", "-n", "5"}, cli::k_history},
      {{"show", "-jx"}, cli::k_show},
      {{"resolve", "--done"}, cli::k_resolve},
      {{"check", "-c", "true"}, cli::k_check},
      {{"still-mine"}, cli::k_still_mine},
      {{"job", "set", "--every", "hour"}, cli::k_job_set},
      {{"ledger", "accept"}, cli::k_ledger_accept},
  };
  for (const auto& [words, context] : cases) {
    CAPTURE(words);
    CHECK(parse(words).context() == context);
  }
  CHECK(parse({"history", "-n", "5"}).value("limit") == "5");
  CHECK(parse({"job", "set", "--every", "hour"}).value("every") == "hour");
}

TEST_CASE("a subcommand that there is not") {
  const Refusal near = refusal({"staus"});
  CHECK(near.says("staus"));
  CHECK(near.hints("status"));
  const Refusal far = refusal({"/opt/job/settle.py"});
  CHECK(far.says("/opt/job/settle.py"));
  CHECK(far.hints("after --"));
  const Refusal half = refusal({"job"});
  CHECK(half.says("half"));
  CHECK(half.hints("job set"));
  CHECK(refusal({"job", "get"}).says("job"));
  CHECK(refusal({""}).says("''"));
}

TEST_CASE("a word too many") {
  CHECK(refusal({"status", "settle"}).says("'settle'"));
  const Refusal command = refusal({"-j", "x", "true"});
  CHECK(command.says("'true'"));
  CHECK(command.hints("after --"));
  CHECK(refusal({"-v", "status"}).hints("oncerun status"));
  CHECK(refusal({"-j", "x", "-"}).says("'-'"));
}
