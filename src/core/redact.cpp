#include "core/redact.hpp"

#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace oncerun::core {

namespace {

constexpr std::string_view k_mask = "***";
constexpr std::string_view k_spaces = " \t\r\n";
constexpr auto k_npos = std::string_view::npos;

/// A stretch of the text, from `begin` up to but not including `end`.
struct Span {
  std::size_t begin;
  std::size_t end;
};

std::size_t find_from(std::string_view text, std::string_view any, std::size_t from) {
  return std::min(text.find_first_of(any, from), text.size());
}

/// The URL that contains the "://" at `marker`, from behind that up to a space or double quote.
Span url_behind(std::string_view text, std::size_t marker) {
  const std::size_t begin = marker + 3;
  return {begin, find_from(text, " \t\r\n\"", begin)};
}

/// What follows the first host and its colon: "6379", and in a list "26379,other:26379".
bool looks_like_ports(std::string_view text) {
  return text.substr(0, text.find(',')).find_first_not_of("0123456789") == k_npos;
}

/// Where the userinfo of the URL ends: at its last @. That may stand behind the authority's end
/// when the password has a raw slash, question mark or hash.
std::size_t userinfo_end(std::string_view url) {
  const std::size_t at = url.substr(0, url.find('?')).rfind('@');
  if (at != k_npos) {
    return at;
  }
  // An @ in the query is no such sign as long as host and port look like one.
  const std::string_view authority = url.substr(0, url.find_first_of("/?#"));
  const std::size_t colon = authority.find(':');
  const bool like_a_host = colon == k_npos || authority.starts_with('[') ||
                           looks_like_ports(authority.substr(colon + 1));
  return like_a_host ? k_npos : url.rfind('@');
}

/// The password in the userinfo of the URL: behind the first colon.
std::optional<Span> userinfo_password(std::string_view text, Span url) {
  const std::string_view rest = text.substr(url.begin, url.end - url.begin);
  const std::size_t at = userinfo_end(rest);
  const std::size_t colon = rest.find(':');
  if (at == k_npos || colon > at) {
    return std::nullopt;
  }
  return Span{url.begin + colon + 1, url.begin + at};
}

bool is_key_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}

bool names_secret(std::string_view key) {
  std::string lower(key);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower.ends_with("password") || lower == "passwd" || lower == "pwd";
}

/// The key before the equals sign at `equals`; spaces may stand between.
std::string_view key_before(std::string_view text, std::size_t equals) {
  std::size_t end = equals;
  while (end > 0 && k_spaces.find(text[end - 1]) != k_npos) {
    --end;
  }
  std::size_t begin = end;
  while (begin > 0 && is_key_character(text[begin - 1])) {
    --begin;
  }
  return text.substr(begin, end - begin);
}

/// The value of a libpq keyword: quoted, or up to a space; a backslash takes the next character as
/// it is.
Span keyword_value(std::string_view text, std::size_t equals) {
  const std::size_t begin = std::min(text.find_first_not_of(k_spaces, equals + 1), text.size());
  const bool in_quotes = begin < text.size() && text[begin] == '\'';
  std::size_t at = begin + (in_quotes ? 1 : 0);
  while (at < text.size()) {
    const char c = text[at];
    if (in_quotes ? c == '\'' : k_spaces.find(c) != k_npos) {
      break;
    }
    at += c == '\\' ? 2 : 1;
  }
  const std::size_t end = std::min(at, text.size());
  return {begin, in_quotes && end < text.size() ? end + 1 : end};
}

/// The URL around `position`, if there is one.
std::optional<Span> url_around(std::string_view text, std::size_t position) {
  const std::size_t marker = text.rfind("://", position);
  if (marker == k_npos) {
    return std::nullopt;
  }
  const Span url = url_behind(text, marker);
  return position < url.end ? std::optional(url) : std::nullopt;
}

/// Copies a text, stretch by stretch, with masks in it.
class Masker {
 public:
  explicit Masker(std::string_view text) : m_text(text) {}

  /// The secrets come in the order in which they begin; what overlaps becomes one mask.
  void mask(Span secret) {
    if (secret.begin >= m_done) {
      m_result.append(m_text.substr(m_done, secret.begin - m_done)).append(k_mask);
    }
    m_done = std::max(m_done, secret.end);
  }
  /// How far the text is copied or masked.
  [[nodiscard]] std::size_t done() const { return m_done; }

  [[nodiscard]] std::string finish() { return std::move(m_result.append(m_text.substr(m_done))); }

 private:
  std::string_view m_text;
  std::string m_result;
  std::size_t m_done = 0;
};

} // namespace

std::string redact(std::string_view text) {
  Masker masker(text);
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t next = at + 1;
    if (text.substr(at).starts_with("://")) {
      if (const auto secret = userinfo_password(text, url_behind(text, at))) {
        masker.mask(*secret);
        next = masker.done();
      }
    } else if (text[at] == '=' && names_secret(key_before(text, at))) {
      const auto url = url_around(text, at);
      masker.mask(url ? Span{at + 1, std::min(find_from(text, "&", at), url->end)}
                      : keyword_value(text, at));
      // Goes on inside of what is masked: this may have been part of another keyword's value, and
      // then the password's own quotes only seem to end it.
    }
    at = next;
  }
  return masker.finish();
}

} // namespace oncerun::core
