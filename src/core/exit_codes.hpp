#pragma once

#include "core/ending.hpp"
#include "core/outcome.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace oncerun::core {

/// What a command says when it does not know: by default oncerun's own codes of that kind, so that
/// an oncerun inside another is understood.
inline constexpr std::string_view k_default_unknown_exit = "80,81,82,84,124";

/// The value of `--unknown-exit`: codes and ranges of codes from 1 to 255, "80,82,100-110"; the
/// empty text is none. Throws UsageError.
[[nodiscard]] ExitCodes parse_exit_codes(std::string_view text, std::string_view option);
/// The shortest text that parse_exit_codes turns into `codes`.
[[nodiscard]] std::string print_exit_codes(const ExitCodes& codes);

/// One exit code from `lowest` (0 or 1) to 255, for options that take just one. Throws UsageError.
[[nodiscard]] int parse_exit_code(std::string_view text, std::string_view option, int lowest = 0);

/// The value of `--exit`: NAME=CODE, a name of the outcome table that has a code of its own, and a
/// code from 0 to 255. Throws UsageError.
[[nodiscard]] std::pair<Outcome, int> parse_exit_mapping(std::string_view text);

} // namespace oncerun::core
