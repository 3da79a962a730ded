#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace oncerun::core {

/// The name of a job: 1 to 200 bytes of UTF-8 without control characters (C0, DEL, C1). Compared
/// byte for byte, never normalised: two names that look alike are two jobs.
class JobName {
 public:
  static constexpr std::size_t k_max_bytes = 200;
  /// Throws UsageError.
  [[nodiscard]] static JobName parse(std::string_view text);
  [[nodiscard]] const std::string& text() const noexcept { return m_text; }
  friend auto operator<=>(const JobName&, const JobName&) = default;

 private:
  explicit JobName(std::string text) : m_text(std::move(text)) {}
  std::string m_text;
};

/// The label of one period (design: biz date). Labels of one period kind sort by time.
/// Which labels a period allows is the calendar's business (calendar.hpp); here it is a value.
class BizDate {
 public:
  static constexpr std::size_t k_max_bytes = 512;
  explicit BizDate(std::string label) : m_label(std::move(label)) {}
  [[nodiscard]] const std::string& label() const noexcept { return m_label; }
  friend auto operator<=>(const BizDate&, const BizDate&) = default;

 private:
  std::string m_label;
};

/// Fencing token: strictly grows per job; milliseconds since 1970 of the store's clock or one more
/// than the last (design, section 2).
struct Token {
  std::int64_t value = 0;
  friend auto operator<=>(const Token&, const Token&) = default;
};

/// One run of the ledger.
struct RunKey {
  JobName job;
  BizDate date;
  friend auto operator<=>(const RunKey&, const RunKey&) = default;
};

/// "settle 2026-10-26", as messages name a run.
[[nodiscard]] std::string title(const RunKey& run);

/// Whether `text` is well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates).
[[nodiscard]] bool is_utf8(std::string_view text) noexcept;
/// Whether `text` has a control character: C0, DEL, or C1 in UTF-8.
[[nodiscard]] bool has_control_character(std::string_view text) noexcept;

} // namespace oncerun::core
