#pragma once

#include <span>
#include <string_view>

namespace oncerun::cli {

/// Where an option may stand.
enum Context : unsigned {
  k_run = 1U << 0,
  k_status = 1U << 1,
  k_history = 1U << 2,
  k_show = 1U << 3,
  k_resolve = 1U << 4,
  k_check = 1U << 5,
  k_still_mine = 1U << 6,
  k_job_set = 1U << 7,
  k_ledger_accept = 1U << 8,
  k_everywhere = ~0U,
};

/// One option, declared once: parser, --help, man page and completions come from this table or are
/// tested against it.
struct Option {
  std::string_view name;       ///< long, without dashes
  char letter;                 ///< short, 0 for none
  std::string_view value;      ///< name of its value; empty for a flag
  std::string_view group;      ///< heading in --help
  unsigned contexts;           ///< where it may stand
  std::string_view help;       ///< one sentence without a full stop
  std::string_view by_default; ///< shown in --help; empty for none
  bool repeatable = false;
};

struct Subcommand {
  std::string_view name; ///< words joined by one space: "job set"
  Context context;
  std::string_view help;
};

[[nodiscard]] std::span<const Option> options() noexcept;
[[nodiscard]] std::span<const Subcommand> subcommands() noexcept;

[[nodiscard]] const Option* find_option(std::string_view name, unsigned contexts) noexcept;
[[nodiscard]] const Option* find_option(char letter, unsigned contexts) noexcept;

} // namespace oncerun::cli
