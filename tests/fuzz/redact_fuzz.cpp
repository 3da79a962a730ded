// Masking of secrets, and the specs in which they stand. Input: a letter for the form, the secret
// up to a newline, and text to stand around it.

#include "cli/arguments.hpp"
#include "cli/settings.hpp"
#include "core/redact.hpp"
#include "fuzz/fuzz.hpp"

using namespace oncerun;
using core::redact;
using fuzz::require;

namespace {

// What no form may let through; the bytes of the input stand between.
constexpr std::string_view k_head = "hUsH0";
constexpr std::string_view k_tail = "0hUsH";

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-._~!$'()*+,;").find(c) != std::string_view::npos;
}

/// RFC 3986: what may not stand in a userinfo or in one query value is percent-encoded.
std::string percent(std::string_view text) {
  constexpr std::string_view k_hex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (plain(c)) {
      out += c;
    } else {
      out.append("%").append(1, k_hex[byte >> 4U]).append(1, k_hex[byte & 15U]);
    }
  }
  return out;
}

/// libpq's quoting: a backslash before each quote and backslash; without quotes also before spaces.
std::string keyword(std::string_view text, bool quoted) {
  std::string out = quoted ? "'" : "";
  for (const char c : text) {
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (c == '\\' || c == '\'' || (space && !quoted)) {
      out += '\\';
    }
    out += c;
  }
  return quoted ? out + "'" : out;
}

/// A text with the secret in it, as someone would write it who keeps to the rules of that form.
std::string with_secret(char form, const std::string& secret, const std::string& user) {
  switch (form) {
  case 'r':
    return "redis://" + percent(user) + ":" + percent(secret) + "@host:6379/0";
  case 's':
    return "redis+sentinel://:" + percent(secret) + "@one:26379,two:26379/main/0";
  case 'p':
    return "postgresql://" + percent(user) + ":" + percent(secret) + "@[::1]:5432/db?sslmode=off";
  case 'q':
    return "postgresql://host/db?user=" + percent(user) + "&password=" + percent(secret) + "&x=1";
  case 'k':
    return "host=h user=" + keyword(user, true) + " password=" + keyword(secret, true) + " x=1";
  case 'u':
    return "host=h password=" + keyword(secret, false) + " dbname=d";
  default:
    return "mysql://" + percent(user) + ":" + percent(secret) + "@host/db";
  }
}

bool shows(std::string_view text) {
  return text.find(k_head) != std::string_view::npos || text.find(k_tail) != std::string_view::npos;
}

/// Whether `shown` is `text` with stretches replaced by ***, and nothing else changed.
bool is_masked(std::string_view text, std::string_view shown) {
  const std::size_t star = shown.find("***");
  if (star == std::string_view::npos) {
    return text == shown;
  }
  if (text.substr(0, star) != shown.substr(0, star)) {
    return false;
  }
  const std::string_view rest = shown.substr(star + 3);
  const std::string_view literal = rest.substr(0, rest.find("***"));
  const bool last = literal.size() == rest.size();
  if (last) {
    return text.size() >= star + literal.size() && text.ends_with(literal);
  }
  for (std::size_t at = star; (at = text.find(literal, at)) != std::string_view::npos; ++at) {
    if (is_masked(text.substr(at), rest)) {
      return true;
    }
  }
  return false;
}

void check_any_text(const std::string& text) {
  const std::string shown = redact(text);
  if (text.size() < 200) {
    require(is_masked(text, shown), "nothing is changed but what is masked", text);
  }
  if (text.find("://") == std::string::npos && text.find('=') == std::string::npos) {
    require(shown == text, "a text without URL and keyword stays", text);
  }
}

/// What the program says of a spec that it refuses, and where it puts one that it accepts.
void check_spec(const std::string& option, const std::string& spec) {
  const std::string word = "--" + option + "=" + spec;
  const char* const argv[] = {"oncerun", word.c_str(), nullptr};
  static const char* const s_variables[] = {"HOME=/nonexistent", nullptr};
  try {
    const cli::Arguments arguments = cli::Arguments::parse(cli::split_arguments(2, argv));
    const cli::Stores stores = cli::stores(arguments, cli::Environment(s_variables));
    require(option == "lock" || stores.ledger.kind == cli::LedgerSpec::Kind::none ||
                spec == stores.ledger.path || spec == "sqlite:" + stores.ledger.path,
            "a ledger's path is what was given", spec);
    require(option == "lock" || spec.starts_with("sqlite:") ||
                spec.find("://") == std::string::npos,
            "no URL is taken for a path", spec);
  } catch (const core::UsageError& error) {
    // As the log prints it: every line goes through redact.
    require(!shows(redact(error.what())) && !shows(redact(error.hint())),
            "a refusal does not tell the secret", error.what());
  }
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(fuzz::text_of(data, size));
  check_any_text(text);
  std::erase(text, '\0'); // no argument has one
  if (text.empty() || shows(text.substr(1))) {
    return 0;
  }
  const auto parts = fuzz::split(text.substr(1), '\n');
  const std::string secret = std::string(k_head) + parts[0] + std::string(k_tail);
  const std::string user = parts.size() > 1 ? parts[1] : "user";
  const std::string written = with_secret(text[0], secret, user);
  const std::string shown = redact(written);
  require(!shows(shown), "no form lets the secret through", written);
  require(redact(shown) == shown, "masking twice is masking once", written);
  require(!shows(redact("cannot reach " + written + ": refused")), "nor inside a message", written);
  if (written.find("://") != std::string::npos) {
    check_spec("ledger", written);
    check_spec("lock", written);
  }
  check_spec("ledger", parts[0]);
  return 0;
}
