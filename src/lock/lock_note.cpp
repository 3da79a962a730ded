#include "lock/lock_note.hpp"

#include <algorithm>
#include <charconv>

namespace oncerun::lock {

namespace {

constexpr std::string_view k_first = "oncerun lock 1";
constexpr std::string_view k_last = "end";

/// A line break would end the value early; no value has one unless the host's name is odd.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Takes the text up to the next line break off `rest`; none if there is no whole line.
std::optional<std::string_view> take_line(std::string_view& rest) {
  const auto end = rest.find('\n');
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  return line;
}

template<typename Number>
bool read_number(std::string_view text, Number& number) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end;
}

bool set_field(core::LockNote& note, std::string_view key, std::string_view value) {
  if (key == "job") {
    note.job = value;
  } else if (key == "date") {
    note.date = value;
  } else if (key == "host") {
    note.host = value;
  } else if (key == "since") {
    note.since = value;
  } else if (key == "machine") {
    note.machine_id = value;
  } else if (key == "boot") {
    note.boot_id = value;
  } else if (key == "pidns") {
    return read_number(value, note.pid_namespace);
  } else if (key == "pid") {
    return read_number(value, note.pid);
  }
  return true; // a later version may say more
}

} // namespace

std::string print_note(const core::LockNote& note) {
  std::string text(k_first);
  const auto add = [&text](std::string_view key, const std::string& value) {
    text.append("\n").append(key).append("=").append(one_line(value));
  };
  add("job", note.job);
  add("date", note.date);
  add("host", note.host);
  add("pid", std::to_string(note.pid));
  add("since", note.since);
  add("machine", note.machine_id);
  add("boot", note.boot_id);
  add("pidns", std::to_string(note.pid_namespace));
  return text.append("\n").append(k_last).append("\n");
}

std::optional<core::LockNote> parse_note(std::string_view text) {
  if (take_line(text) != k_first) {
    return std::nullopt;
  }
  core::LockNote note;
  while (const std::optional<std::string_view> line = take_line(text)) {
    if (*line == k_last) {
      return note;
    }
    const auto equals = line->find('=');
    if (equals == std::string_view::npos ||
        !set_field(note, line->substr(0, equals), line->substr(equals + 1))) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

} // namespace oncerun::lock
