#include "core/text.hpp"
#include "support/catch.hpp"

#include <string>

using namespace oncerun::core;

TEST_CASE("numbers are digits and nothing else") {
  CHECK(parse_number("0", 9) == 0);
  CHECK(parse_number("007", 9) == 7);
  CHECK(parse_number("9", 9) == 9);
  CHECK_FALSE(parse_number("10", 9));
  CHECK_FALSE(parse_number("99999999999999999999999", 1'000'000'000'000));
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "1a", "a"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_number(text, 9));
  }
}

TEST_CASE("numbers are padded and never cut") {
  std::string text = "x";
  append_padded(text, 7, 3);
  append_padded(text, 1234, 2);
  append_padded(text, 0, 1);
  CHECK(text == "x00712340");
}

TEST_CASE("a quote is one line of valid UTF-8") {
  CHECK(quote("abc") == "\"abc\"");
  CHECK(quote("") == "\"\"");
  CHECK(quote("s\xC3\xBC"
              "d") == "\"s\xC3\xBC"
                      "d\"");
  CHECK(quote("a\nb") == "\"a\\x0ab\"");
  CHECK(quote("a\xFF"
              "b") == "\"a\\xff"
                      "b\"");
  CHECK(quote(std::string(81, 'x')) == "\"" + std::string(80, 'x') + "\xE2\x80\xA6\"");
  // The cut does not break a character: 79 letters, then one of two bytes.
  CHECK(quote(std::string(79, 'x') + "\xC3\xBC") == "\"" + std::string(79, 'x') + "\xE2\x80\xA6\"");
}
