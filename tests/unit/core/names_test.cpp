#include "core/names.hpp"
#include "refusal.hpp"

using oncerun::core::has_control_character;
using oncerun::core::is_utf8;
using oncerun::core::JobName;
using oncerun::test::refusal_of;

TEST_CASE("UTF-8 is what RFC 3629 says") {
  for (const char* good : {"", "settle",
                           "s\xC3\xBC"
                           "d",
                           "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    CAPTURE(good);
    CHECK(is_utf8(good));
  }
  for (const char* bad : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xC2", "\xC2x", "\xE0\x9F\xBF",
                          "\xE2\x82", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80", "\xFF", "a\xFE"}) {
    CAPTURE(bad);
    CHECK_FALSE(is_utf8(bad));
  }
}

TEST_CASE("control characters are C0, DEL and C1") {
  CHECK(has_control_character("a\nb"));
  CHECK(has_control_character("\x1F"));
  CHECK(has_control_character("\x7F"));
  CHECK(has_control_character("\xC2\x80"));
  CHECK(has_control_character("\xC2\x9F"));
  CHECK(has_control_character(std::string(1, '\0')));
  CHECK_FALSE(has_control_character(" ~"));
  CHECK_FALSE(has_control_character("\xC2\xA0")); // a no-break space
  CHECK_FALSE(has_control_character("\xC3\x9F"));
  CHECK_FALSE(has_control_character(""));
}

TEST_CASE("a job name is taken byte for byte") {
  CHECK(JobName::parse("s\xC3\xBC"
                       "d")
            .text() == "s\xC3\xBC"
                       "d");
  CHECK(JobName::parse("../x y/$HOME").text() == "../x y/$HOME");
  CHECK(JobName::parse(std::string(200, 'x')).text().size() == 200);
  // An u with a combining diaeresis looks like the letter above and is another name.
  CHECK(JobName::parse("su\xCC\x88"
                       "d") != JobName::parse("s\xC3\xBC"
                                              "d"));
}

TEST_CASE("what is no job name is refused") {
  CHECK(refusal_of([] { (void)JobName::parse(""); }).says("empty"));
  CHECK(refusal_of([] { (void)JobName::parse(std::string(201, 'x')); }).says("201 bytes"));
  CHECK(refusal_of([] { (void)JobName::parse("a\tb"); }).says("control character"));
  CHECK(refusal_of([] { (void)JobName::parse("a\xFF"); }).says("not UTF-8"));
  CHECK(refusal_of([] { (void)JobName::parse(""); }).hints("1 to 200 bytes"));
}
