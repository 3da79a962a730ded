#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace oncerun::core {

/// What a job runs once in (design, section 2): a day by default, a week, a month, a part of the
/// day, or a key, which is no time at all. Two spellings of one period (60m, 1h, hour) are equal.
class Period {
 public:
  /// A day.
  Period() = default;
  /// `day`, `hour`, `week`, `month`, `key`, `Nm` or `Nh` where that many minutes or hours divide
  /// the day. Throws UsageError.
  [[nodiscard]] static Period parse(std::string_view text);

  /// The canonical text, as the ledger keeps it: `hour`, `15m`, `6h`, `90m`, `day`, …
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool is_key() const noexcept { return m_kind == Kind::key; }
  [[nodiscard]] bool is_day() const noexcept { return m_kind == Kind::day; }
  [[nodiscard]] bool is_week() const noexcept { return m_kind == Kind::week; }
  [[nodiscard]] bool is_month() const noexcept { return m_kind == Kind::month; }
  /// Whether it is a part of the day, so that labels are UTC instants.
  [[nodiscard]] bool below_day() const noexcept { return m_kind == Kind::minutes; }
  /// The length of a part of the day on the local clock; 0 for the others, whose lengths vary.
  [[nodiscard]] int minutes() const noexcept { return m_minutes; }

  friend bool operator==(const Period&, const Period&) = default;

 private:
  enum class Kind : std::uint8_t { minutes, day, week, month, key };
  explicit Period(Kind kind, int minutes = 0) noexcept : m_kind(kind), m_minutes(minutes) {}
  [[nodiscard]] static Period of_minutes(int minutes) noexcept;

  Kind m_kind = Kind::day;
  int m_minutes = 0;
};

} // namespace oncerun::core
