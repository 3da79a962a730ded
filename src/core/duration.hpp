#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace oncerun::core {

/// The longest duration that an option takes; far below where clocks overflow.
inline constexpr std::chrono::milliseconds k_max_duration = std::chrono::hours(24 * 36500);

/// "90" (seconds), "30s", "5m", "2h", "1d", "1h30m", "0.3s": units from large to small, each once;
/// only the last number may have a fraction, of at most three digits. Throws UsageError that names
/// `option`: no sign, no empty text, nothing behind it, nothing above k_max_duration.
[[nodiscard]] std::chrono::milliseconds parse_duration(std::string_view text,
                                                       std::string_view option);

/// The compact form: "1h30m", "1m30s", "0.3s", "0s". parse_duration reads it back, but for the sign
/// of a negative one.
[[nodiscard]] std::string print_duration(std::chrono::milliseconds duration);

} // namespace oncerun::core
