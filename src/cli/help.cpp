#include "cli/help.hpp"

#include "cli/versions.hpp"
#include "core/outcome.hpp"

#include <algorithm>
#include <vector>

namespace oncerun::cli {

namespace {

constexpr std::size_t k_width = 80;
constexpr std::size_t k_column = 30;

/// Appends `text` broken at spaces, continued at `indent`; the cursor stands at `indent`.
void wrap(std::string& out, std::string_view text, std::size_t indent) {
  std::size_t column = indent;
  bool first = true;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!first && column + 1 + word.size() > k_width) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out += '\n';
}

void entry(std::string& out, const std::string& left, std::string_view right) {
  out += left;
  if (left.size() + 2 > k_column) {
    out += "\n" + std::string(k_column, ' ');
  } else {
    out += std::string(k_column - left.size(), ' ');
  }
  wrap(out, right, k_column);
}

std::string left_side(const Option& option) {
  std::string left = option.letter != 0 ? std::string("  -") + option.letter + ", " : "      ";
  left += "--" + std::string(option.name);
  if (!option.value.empty()) {
    left += " " + std::string(option.value);
  }
  return left;
}

std::string right_side(const Option& option) {
  std::string right(option.help);
  if (!option.by_default.empty()) {
    right += " [" + std::string(option.by_default) + "]";
  }
  return right;
}

void list_options(std::string& out, Context context) {
  std::vector<std::string_view> groups;
  for (const Option& option : options()) {
    if ((option.contexts & context) != 0 &&
        std::find(groups.begin(), groups.end(), option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  for (const std::string_view group : groups) {
    out += "\n" + std::string(group) + ":\n";
    for (const Option& option : options()) {
      if ((option.contexts & context) != 0 && option.group == group) {
        entry(out, left_side(option), right_side(option));
      }
    }
  }
}

void list_exit_codes(std::string& out) {
  out += "\nExit codes (the command's own is passed on):\n";
  for (const core::OutcomeRow& row : core::outcome_table()) {
    if (row.code >= 0) {
      std::string left = "  " + std::to_string(row.code);
      left += std::string(7 - left.size(), ' ') + std::string(row.name);
      entry(out, left, row.meaning);
    }
  }
}

} // namespace

std::string help_text(Context context) {
  std::string out;
  if (context != k_run) {
    for (const Subcommand& subcommand : subcommands()) {
      if (subcommand.context == context) {
        out = "Usage: oncerun " + std::string(subcommand.name) + " [OPTIONS]\n\n" +
              std::string(subcommand.help) + "\n";
      }
    }
    list_options(out, context);
    return out;
  }
  out = "Usage: oncerun [OPTIONS] -- COMMAND [ARG...]\n"
        "       oncerun SUBCOMMAND [OPTIONS]\n\n"
        "Runs COMMAND so that its effect happens once per job and date.\n\n"
        "  0 2 * * *  oncerun --job settle --date yesterday -- /opt/job/settle.py\n";
  out += "\nSubcommands (each has its own --help):\n";
  for (const Subcommand& subcommand : subcommands()) {
    entry(out, "  " + std::string(subcommand.name), subcommand.help);
  }
  list_options(out, context);
  list_exit_codes(out);
  out += "\nDurations: 90 (seconds), 30s, 5m, 2h, 1d, 1h30m, 0.3s.\n"
         "More: man oncerun, man oncerun-guarantees.\n";
  return out;
}

std::string version_text() {
  std::string out = "oncerun " + std::string(oncerun_version()) + "\n";
  for (const Library& library : libraries()) {
    out += "  " + std::string(library.name) + " " + library.version + "\n";
  }
  return out;
}

} // namespace oncerun::cli
