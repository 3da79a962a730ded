#pragma once

#include "core/lock.hpp"
#include "core/run_mark.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace oncerun::lock {

// The texts that stand in Redis. A line of words each, so that `redis-cli GET` shows them plainly;
// what could break a word apart is percent-encoded (RFC 3986, section 2.1).

/// The value of a lock: unique by its run id, and telling who holds it since when.
[[nodiscard]] std::string print_value(const core::LockNote& note);
/// None for the value of another program (--lock-key).
[[nodiscard]] std::optional<core::LockNote> parse_value(std::string_view text);

/// "done RUN-ID TOKEN HOST AT".
[[nodiscard]] std::string print_mark(const core::RunMark& mark);
/// A part of a key's name, in which each of `reserved` is percent-encoded, so that no two runs
/// share a key.
[[nodiscard]] std::string key_part(std::string_view text, std::string_view reserved);
/// How the mark of an attempt under way begins, whatever its token is by now.
[[nodiscard]] std::string pending_prefix(std::string_view run_id);
/// What follows a '|', the mark that stood there before, is passed over. None for an empty text;
/// one that is no mark reads as unknown, since somebody wrote it.
[[nodiscard]] std::optional<core::RunMark> parse_mark(std::string_view text);

} // namespace oncerun::lock
