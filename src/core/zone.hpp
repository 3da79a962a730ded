#pragma once

#include <chrono>
#include <string>

namespace oncerun::core {

/// A time zone as the calendar needs it: pure to its users, implemented by os/ from the system's
/// tz database and by tests from a table.
class Zone {
 public:
  virtual ~Zone() = default;
  /// What local clocks are ahead of UTC at that instant.
  [[nodiscard]] virtual std::chrono::seconds offset_at(std::chrono::sys_seconds instant) const = 0;
  [[nodiscard]] virtual const std::string& name() const = 0;
};

} // namespace oncerun::core
