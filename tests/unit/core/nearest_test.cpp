#include "core/nearest.hpp"
#include "support/catch.hpp"

#include <array>
#include <string_view>

using oncerun::core::edit_distance;
using oncerun::core::nearest;

namespace {

constexpr std::array<std::string_view, 10> k_options{
    "--job",  "--date",    "--every",         "--lock",        "--ledger",
    "--wait", "--timeout", "--check-timeout", "--check-first", "--guarantee"};

} // namespace

TEST_CASE("distances are those of Damerau and Levenshtein") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "abc") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("abc", "abd") == 1);
  CHECK(edit_distance("abc", "acb") == 1);
  CHECK(edit_distance("abc", "ab") == 1);
  CHECK(edit_distance("abc", "xabc") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("ca", "abc") == 3); // restricted: no edit inside a swapped pair
}

TEST_CASE("a slip is recognised") {
  CHECK(nearest("--gaurantee", k_options) == "--guarantee");
  CHECK(nearest("--jbo", k_options) == "--job");
  CHECK(nearest("--data", k_options) == "--date");
  CHECK(nearest("--leger", k_options) == "--ledger");
  CHECK(nearest("--tiemout", k_options) == "--timeout");
  CHECK(nearest("--check-timout", k_options) == "--check-timeout");
  CHECK(nearest("-job", k_options) == "--job");
}

TEST_CASE("another word is not guessed at") {
  CHECK_FALSE(nearest("--zzz", k_options));
  CHECK_FALSE(nearest("--x", k_options));
  CHECK_FALSE(nearest("--", k_options));
  CHECK_FALSE(nearest("", k_options));
  CHECK_FALSE(nearest("--verbose", k_options));
  CHECK_FALSE(nearest("--job", {}));
}

TEST_CASE("among equals the first is named") {
  constexpr std::array<std::string_view, 3> k_equals{"abcd", "abce", "abcf"};
  CHECK(nearest("abcx", k_equals) == "abcd");
}
