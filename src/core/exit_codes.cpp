#include "core/exit_codes.hpp"

#include "core/error.hpp"
#include "core/nearest.hpp"
#include "core/text.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace oncerun::core {

namespace {

constexpr int k_max_exit_code = 255;

std::optional<int> code_in(std::string_view text, int lowest) {
  const auto number = parse_number(text, k_max_exit_code);
  if (!number || *number < lowest) {
    return std::nullopt;
  }
  return static_cast<int>(*number);
}

/// One item of the list: a code, or a range of codes.
bool add_item(ExitCodes& codes, std::string_view item) {
  const std::size_t dash = item.find('-');
  const std::optional<int> first = code_in(item.substr(0, dash), 1);
  const std::optional<int> last =
      dash == std::string_view::npos ? first : code_in(item.substr(dash + 1), 1);
  if (!first || !last || *first > *last) {
    return false;
  }
  for (int code = *first; code <= *last; ++code) {
    codes.set(static_cast<std::size_t>(code));
  }
  return true;
}

std::string value_of(std::string_view option, std::string_view text) {
  return std::string(option) + ": " + quote(text);
}

[[noreturn]] void refuse_outcome(std::string_view text, std::string_view name) {
  std::vector<std::string_view> names;
  std::string list;
  for (const OutcomeRow& row : outcome_table()) {
    if (row.code >= 0) {
      names.push_back(row.name);
      list.append(list.empty() ? "" : ", ").append(row.name);
    }
  }
  const auto meant = nearest(name, names);
  throw UsageError(value_of("--exit", text) + " names no outcome",
                   meant ? "did you mean " + std::string(*meant) + "?"
                         : "the outcomes are " + list);
}

} // namespace

ExitCodes parse_exit_codes(std::string_view text, std::string_view option) {
  ExitCodes codes;
  std::string_view rest = text;
  bool more = !text.empty();
  while (more) {
    const std::size_t comma = rest.find(',');
    if (!add_item(codes, rest.substr(0, comma))) {
      throw UsageError(value_of(option, text) + " is not a list of exit codes",
                       "write codes and ranges from 1 to 255 with commas between: 80,82,100-110");
    }
    more = comma != std::string_view::npos;
    rest.remove_prefix(more ? comma + 1 : rest.size());
  }
  return codes;
}

std::string print_exit_codes(const ExitCodes& codes) {
  std::string text;
  std::size_t code = 0;
  while (code < codes.size()) {
    if (!codes[code]) {
      ++code;
      continue;
    }
    std::size_t last = code;
    while (last + 1 < codes.size() && codes[last + 1]) {
      ++last;
    }
    // Two neighbours are written as two, as people do.
    text.append(text.empty() ? "" : ",").append(std::to_string(code));
    if (last > code) {
      text.append(last == code + 1 ? "," : "-").append(std::to_string(last));
    }
    code = last + 1;
  }
  return text;
}

int parse_exit_code(std::string_view text, std::string_view option, int lowest) {
  const std::optional<int> code = code_in(text, lowest);
  if (!code) {
    throw UsageError(value_of(option, text) + " is not an exit code",
                     "write a number from " + std::to_string(lowest) + " to 255");
  }
  return *code;
}

std::pair<Outcome, int> parse_exit_mapping(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    throw UsageError(value_of("--exit", text) + " is not NAME=CODE",
                     "write an outcome and the code to exit with: --exit busy=0");
  }
  const std::string_view name = text.substr(0, equals);
  const std::optional<Outcome> outcome = outcome_named(name);
  if (!outcome) {
    refuse_outcome(text, name);
  }
  return {*outcome, parse_exit_code(text.substr(equals + 1), "--exit", 0)};
}

} // namespace oncerun::core
