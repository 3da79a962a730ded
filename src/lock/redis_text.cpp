#include "lock/redis_text.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <vector>

namespace oncerun::lock {

namespace {

constexpr std::string_view k_first = "oncerun-1";

std::string percent_code(unsigned char byte) {
  std::array<char, 4> code{};
  (void)std::snprintf(code.data(), code.size(), "%%%02X", static_cast<unsigned>(byte));
  return code.data();
}

std::string encoded(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte > ' ' && byte != '%' && byte != '|' && byte != 0x7f;
    result += plain ? std::string(1, c) : percent_code(byte);
  }
  return result;
}

std::string decoded(std::string_view text) {
  constexpr int k_hexadecimal = 16;
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int byte = 0;
    const bool is_code =
        text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, k_hexadecimal).ptr ==
            text.data() + i + 3;
    result += is_code ? static_cast<char>(byte) : text[i];
    i += is_code ? 2 : 0;
  }
  return result;
}

/// One word more than there are spaces, empty ones included.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const auto space = text.find(' ');
    words.push_back(text.substr(0, space));
    if (space == std::string_view::npos) {
      return words;
    }
    text.remove_prefix(space + 1);
  }
}

template<typename Number>
bool read_number(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end;
}

bool set_field(core::LockNote& note, std::string_view key, std::string_view value) {
  if (key == "pid") {
    return read_number(value, note.pid);
  }
  if (key == "pidns") {
    return read_number(value, note.pid_namespace);
  }
  struct Text {
    std::string_view key;
    std::string* value;
  };
  for (const Text& text :
       {Text{"run", &note.run_id}, Text{"job", &note.job}, Text{"date", &note.date},
        Text{"host", &note.host}, Text{"since", &note.since}, Text{"boot", &note.boot_id},
        Text{"machine", &note.machine_id}}) {
    if (key == text.key) {
      *text.value = decoded(value);
    }
  }
  return true; // a later version may say more
}

} // namespace

std::string print_value(const core::LockNote& note) {
  std::string text(k_first);
  const auto add = [&text](std::string_view key, std::string_view value) {
    text.append(" ").append(key).append("=").append(encoded(value));
  };
  add("run", note.run_id);
  add("job", note.job);
  add("date", note.date);
  add("host", note.host);
  add("pid", std::to_string(note.pid));
  add("since", note.since);
  add("machine", note.machine_id);
  add("boot", note.boot_id);
  add("pidns", std::to_string(note.pid_namespace));
  return text;
}

std::optional<core::LockNote> parse_value(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  if (words.empty() || words.front() != k_first) {
    return std::nullopt;
  }
  core::LockNote note;
  for (const std::string_view word : words) {
    const auto equals = word.find('=');
    if (equals != std::string_view::npos &&
        !set_field(note, word.substr(0, equals), word.substr(equals + 1))) {
      return std::nullopt;
    }
  }
  return note.run_id.empty() ? std::nullopt : std::optional(note);
}

std::string print_mark(const core::RunMark& mark) {
  return std::string(core::name_of(mark.status)) + " " + encoded(mark.run_id) + " " +
         std::to_string(mark.token.value) + " " + encoded(mark.host) + " " + encoded(mark.at);
}

std::string key_part(std::string_view text, std::string_view reserved) {
  std::string result;
  for (const char c : text) {
    const bool plain = reserved.find(c) == std::string_view::npos;
    result += plain ? std::string(1, c) : percent_code(static_cast<unsigned char>(c));
  }
  return result;
}

std::string pending_prefix(std::string_view run_id) {
  return std::string(core::name_of(core::RunStatus::pending)) + " " + encoded(run_id) + " ";
}

std::optional<core::RunMark> parse_mark(std::string_view text) {
  const std::string_view own = text.substr(0, text.find('|'));
  if (own.empty()) {
    return std::nullopt;
  }
  const std::vector<std::string_view> words = words_of(own);
  constexpr std::size_t k_words = 5;
  core::RunMark mark;
  constexpr std::int64_t k_highest = std::int64_t{1} << 60; // what a ledger takes for a counter
  if (words.size() < k_words || !read_number(words[2], mark.token.value) || mark.token.value < 0 ||
      mark.token.value > k_highest) {
    mark.token = {};
    return mark; // somebody wrote something about this run: no reason to start it
  }
  for (const core::RunStatus status : {core::RunStatus::pending, core::RunStatus::done,
                                       core::RunStatus::failed, core::RunStatus::unknown}) {
    if (words[0] == core::name_of(status)) {
      mark.status = status;
    }
  }
  mark.run_id = decoded(words[1]);
  mark.host = decoded(words[3]);
  mark.at = decoded(words[4]);
  return mark;
}

} // namespace oncerun::lock
