#pragma once

#include "cli/options.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace oncerun::cli {

/// argv cut at the first `--`. Everything behind it is the command, byte for byte; the option
/// library never sees it.
struct SplitArguments {
  std::vector<std::string> own; ///< without argv[0]
  std::vector<std::string> command;
  bool has_separator = false;
};
[[nodiscard]] SplitArguments split_arguments(int argc, const char* const* argv);

/// What stood on oncerun's side of `--`.
class Arguments {
 public:
  /// Throws core::UsageError: an unknown option (with the nearest known one), a missing value, an
  /// option given twice, an unknown subcommand, no command, …
  [[nodiscard]] static Arguments parse(const SplitArguments& split);

  [[nodiscard]] Context context() const noexcept { return m_context; }
  [[nodiscard]] bool has(std::string_view option) const;
  /// The value; none if the option was not given.
  [[nodiscard]] std::optional<std::string> value(std::string_view option) const;
  [[nodiscard]] std::vector<std::string> values(std::string_view option) const;

 private:
  Context m_context = k_run;
  std::map<std::string, std::vector<std::string>, std::less<>> m_values;
};

} // namespace oncerun::cli
