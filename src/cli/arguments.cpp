#include "cli/arguments.hpp"

#include "cli/versions.hpp"
#include "core/error.hpp"
#include "core/nearest.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <set>

namespace oncerun::cli {

namespace {

core::UsageError unknown_option(const std::string& token, std::string_view name,
                                unsigned contexts) {
  std::vector<std::string_view> candidates;
  for (const Option& option : options()) {
    if ((option.contexts & contexts) != 0) {
      candidates.push_back(option.name);
    }
  }
  std::string hint = "oncerun --help lists the options";
  if (const auto near = core::nearest(name, candidates)) {
    hint = "did you mean --" + std::string(*near) + "?";
  }
  return core::UsageError("unknown option " + token, hint);
}

/// What a token names: one option for `--name` and `--name=value`, several for `-ab`.
struct Named {
  std::vector<const Option*> options;
  bool wants_value = false; ///< the last one takes a value, and it does not stand in this token
};

Named named_by(const std::string& token, unsigned contexts) {
  Named found;
  if (token.starts_with("--")) {
    const std::string name = token.substr(2, token.find('=') - 2);
    const Option* option = find_option(name, contexts);
    if (option == nullptr) {
      throw unknown_option("--" + name, name, contexts);
    }
    found.options.push_back(option);
    found.wants_value = !option->value.empty() && token.find('=') == std::string::npos;
    return found;
  }
  for (std::size_t i = 1; i < token.size(); ++i) {
    const Option* option = find_option(token[i], contexts);
    if (option == nullptr) {
      throw unknown_option("-" + std::string(1, token[i]), std::string_view(&token[i], 1),
                           contexts);
    }
    found.options.push_back(option);
    if (!option->value.empty()) {
      found.wants_value = i + 1 == token.size();
      break; // the rest of the token is its value
    }
  }
  return found;
}

/// The subcommand that the first words name, and how many words that takes.
std::pair<const Subcommand*, std::size_t> find_subcommand(const std::vector<std::string>& own) {
  for (const Subcommand& subcommand : subcommands()) {
    const std::size_t words = 1 + static_cast<std::size_t>(std::count(subcommand.name.begin(),
                                                                      subcommand.name.end(), ' '));
    if (own.size() < words) {
      continue;
    }
    std::string joined = own[0];
    for (std::size_t i = 1; i < words; ++i) {
      joined += " " + own[i];
    }
    if (joined == subcommand.name) {
      return {&subcommand, words};
    }
  }
  return {nullptr, 0};
}

core::UsageError unknown_subcommand(const std::string& word) {
  std::vector<std::string_view> candidates;
  for (const Subcommand& subcommand : subcommands()) {
    candidates.push_back(subcommand.name);
    if (subcommand.name.starts_with(word + " ")) {
      return core::UsageError("'" + word + "' is only half of a subcommand",
                              "did you mean '" + std::string(subcommand.name) + "'?");
    }
  }
  std::string hint = "a command to run comes after --: oncerun -j NAME -- COMMAND";
  if (const auto near = core::nearest(word, candidates)) {
    hint = "did you mean '" + std::string(*near) + "'?";
  }
  return core::UsageError("unknown subcommand '" + word + "'", hint);
}

core::UsageError unexpected_argument(const std::string& token, Context context) {
  std::string hint = "oncerun --help lists the subcommands and their options";
  if (context == k_run) {
    hint = "the command comes after --: oncerun -j NAME -- COMMAND";
    for (const Subcommand& subcommand : subcommands()) {
      if (subcommand.name == token || subcommand.name.starts_with(token + " ")) {
        hint = "a subcommand comes before its options: oncerun " + token + " [OPTIONS]";
      }
    }
  }
  return core::UsageError("unexpected argument '" + token + "'", hint);
}

std::string flag_names(const Option& option) {
  std::string names = option.letter != 0 ? std::string("-") + option.letter + "," : "";
  return names + "--" + std::string(option.name);
}

} // namespace

SplitArguments split_arguments(int argc, const char* const* argv) {
  SplitArguments split;
  int i = 1;
  for (; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--") {
      split.has_separator = true;
      ++i;
      break;
    }
    split.own.emplace_back(argv[i]);
  }
  for (; i < argc; ++i) {
    split.command.emplace_back(argv[i]);
  }
  return split;
}

Arguments Arguments::parse(const SplitArguments& split) {
  Arguments arguments;
  std::vector<std::string> own = split.own;
  if (!own.empty() && !own.front().starts_with("-")) {
    const auto [subcommand, words] = find_subcommand(own);
    if (subcommand == nullptr) {
      throw unknown_subcommand(own.front());
    }
    arguments.m_context = subcommand->context;
    own.erase(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(words));
  }

  // Only what is named here is registered: registering everything costs more than parsing it.
  CLI::App app;
  app.set_help_flag();
  app.allow_windows_style_options(false);
  std::set<std::string_view> registered;
  std::map<std::string_view, int> flags;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::string& token = own[i];
    if (token.size() < 2 || token.front() != '-') {
      throw unexpected_argument(token, arguments.m_context);
    }
    const Named named = named_by(token, arguments.m_context);
    const std::vector<const Option*>& found = named.options;
    for (const Option* option : found) {
      if (!registered.insert(option->name).second) {
        if (!option->repeatable && !option->value.empty()) {
          throw core::UsageError("option --" + std::string(option->name) + " is given twice",
                                 "give it once");
        }
        continue;
      }
      if (option->value.empty()) {
        app.add_flag(flag_names(*option), flags[option->name]);
        arguments.m_values[std::string(option->name)] = {};
      } else {
        app.add_option(flag_names(*option), arguments.m_values[std::string(option->name)])
            ->expected(1)
            ->allow_extra_args(false)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      }
    }
    if (named.wants_value) {
      if (i + 1 >= own.size()) {
        throw core::UsageError("option --" + std::string(found.back()->name) + " needs a value",
                               "--" + std::string(found.back()->name) + " " +
                                   std::string(found.back()->value));
      }
      ++i;
    } else if (found.back()->value.empty() && token.find('=') != std::string::npos) {
      throw core::UsageError("option --" + std::string(found.back()->name) + " takes no value",
                             "leave out what follows the =");
    } else if (token.starts_with("--") && token.find('=') == token.size() - 1) {
      // CLI11 takes the next word for the value of `--name=`; of `--name` and an empty word not.
      own[i].pop_back();
      ++i;
      own.insert(own.begin() + static_cast<std::ptrdiff_t>(i), std::string());
    }
  }
  try {
    std::reverse(own.begin(), own.end()); // what CLI11 expects of a vector
    app.parse(own);
  } catch (const CLI::ParseError& error) {
    throw core::UsageError("cannot read the options: " + std::string(error.what()),
                           "a value that begins with - is given as --option=VALUE");
  }
  return arguments;
}

bool Arguments::has(std::string_view option) const {
  return m_values.find(option) != m_values.end();
}

std::optional<std::string> Arguments::value(std::string_view option) const {
  const auto found = m_values.find(option);
  if (found == m_values.end() || found->second.empty()) {
    return std::nullopt;
  }
  return found->second.front();
}

std::vector<std::string> Arguments::values(std::string_view option) const {
  const auto found = m_values.find(option);
  return found == m_values.end() ? std::vector<std::string>{} : found->second;
}

std::string cli11_version() {
  return CLI11_VERSION;
}

} // namespace oncerun::cli
