#pragma once

// The grammar of the command line once more, written for clarity and without an option library:
// what cli::Arguments is compared with.

#include "cli/options.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace oncerun::fuzz {

struct ReferenceArguments {
  cli::Context context = cli::k_run;
  std::map<std::string, std::vector<std::string>> values;
  /// A value of its own word begins with a dash: it may be refused, since it is probably an option
  /// that lost its value.
  bool dashed_value = false;
};

/// Reads one command line word by word; every step says whether the grammar still holds.
class ReferenceParser {
 public:
  explicit ReferenceParser(const std::vector<std::string>& words) : m_words(words) {}

  [[nodiscard]] std::optional<ReferenceArguments> parse() {
    if (!m_words.empty() && (m_words[0].empty() || m_words[0][0] != '-') && !subcommand()) {
      return std::nullopt;
    }
    while (m_at < m_words.size()) {
      const std::string& word = m_words[m_at++];
      const bool good = word.starts_with("--")                     ? long_option(word.substr(2))
                        : word.size() > 1 && word.starts_with("-") ? letters(word.substr(1))
                                                                   : false;
      if (!good) {
        return std::nullopt;
      }
    }
    return m_result;
  }

 private:
  bool subcommand() {
    for (const cli::Subcommand& one : cli::subcommands()) {
      std::string name = m_words[0];
      std::size_t used = 1;
      if (one.name.find(' ') != std::string_view::npos && m_words.size() > 1) {
        name += " " + m_words[1];
        used = 2;
      }
      if (name == one.name) {
        m_result.context = one.context;
        m_at = used;
        return true;
      }
    }
    return false;
  }

  bool long_option(const std::string& text) {
    const std::size_t equals = text.find('=');
    const cli::Option* option = cli::find_option(text.substr(0, equals), m_result.context);
    if (option == nullptr) {
      return false;
    }
    if (option->value.empty()) {
      return equals == std::string::npos && flag(*option);
    }
    return equals == std::string::npos ? next_word(*option)
                                       : value(*option, text.substr(equals + 1));
  }

  bool letters(const std::string& text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const cli::Option* option = cli::find_option(text[i], m_result.context);
      if (option == nullptr) {
        return false;
      }
      if (!option->value.empty()) {
        return i + 1 == text.size() ? next_word(*option) : value(*option, text.substr(i + 1));
      }
      flag(*option);
    }
    return true;
  }

  bool next_word(const cli::Option& option) {
    if (m_at == m_words.size()) {
      return false;
    }
    m_result.dashed_value = m_result.dashed_value || m_words[m_at].starts_with("-");
    return value(option, m_words[m_at++]);
  }

  bool flag(const cli::Option& option) {
    m_result.values[std::string(option.name)] = {};
    return true;
  }

  bool value(const cli::Option& option, const std::string& text) {
    auto& values = m_result.values[std::string(option.name)];
    values.push_back(text);
    return values.size() == 1 || option.repeatable;
  }

  const std::vector<std::string>& m_words;
  std::size_t m_at = 0;
  ReferenceArguments m_result;
};

} // namespace oncerun::fuzz
