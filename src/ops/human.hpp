#pragma once

#include "core/names.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace oncerun::ops {

using Instant = std::chrono::sys_time<std::chrono::milliseconds>;

/// "0.3s", "42s", "3m 12s", "2h 5m", "3d 4h": at most two units, cut off, never rounded up.
/// A negative one (a clock was set back) reads "0s".
[[nodiscard]] std::string human_duration(std::chrono::milliseconds duration);

/// An instant of the ledger for people: "2026-10-26 18:00:00Z"; "-" if it is not known. It stays in
/// UTC, so that it can be compared with what --json, the ledger and other hosts' logs say.
[[nodiscard]] std::string human_instant(std::string_view utc);

/// What passed between two instants of the ledger; nothing if one of them is not known.
[[nodiscard]] std::optional<std::chrono::milliseconds> between(std::string_view from,
                                                               std::string_view to);
[[nodiscard]] std::optional<std::chrono::milliseconds> since(std::string_view from, Instant now);

/// The text with whatever could steer a terminal made visible: control characters and bytes that
/// are not UTF-8 as \n, \t or \xNN, marks that turn the reading direction as \u{202e}. Job names
/// have no control characters, but notes and other people's ledgers may.
[[nodiscard]] std::string printable(std::string_view text);

/// The text as one word of a POSIX shell, quoted only where it must be (XCU, section 2.2.2).
[[nodiscard]] std::string shell_word(std::string_view text);

/// "-j JOB -d DATE" for a command line that a person can paste.
[[nodiscard]] std::string run_arguments(const core::RunKey& run);
/// "JOB DATE", printable.
[[nodiscard]] std::string run_name(const core::RunKey& run);

/// "1 run", "2 runs".
[[nodiscard]] std::string counted(std::size_t count, std::string_view what);

/// Columns that the text takes on a terminal; it must be printable. Wide East Asian characters and
/// emoji take two (Unicode Standard Annex 11, in broad ranges), combining marks none.
[[nodiscard]] int display_width(std::string_view text) noexcept;
/// The text cut to at most `width` columns, with "…" in place of what is missing.
[[nodiscard]] std::string cut_to_width(std::string_view text, int width);

} // namespace oncerun::ops
