#include "os/clock.hpp"

#include "core/error.hpp"

#include <sys/timerfd.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <limits>

namespace oncerun::os {

namespace {

/// Longer waits are no different from endless ones, and would overflow steady_clock's counter.
constexpr std::chrono::milliseconds k_endless = std::chrono::hours(24 * 365 * 100);

} // namespace

std::chrono::sys_time<std::chrono::milliseconds> now() noexcept {
  return std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

std::chrono::milliseconds boot_time() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds(time.tv_sec) +
         std::chrono::floor<std::chrono::milliseconds>(std::chrono::nanoseconds(time.tv_nsec));
}

std::string now_text() {
  // Civil arithmetic instead of gmtime_r(3), which reads /etc/localtime first.
  const auto instant = now();
  const auto day = std::chrono::floor<std::chrono::days>(instant);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(instant - day);
  std::array<char, 64> text{};
  const int length = std::snprintf(
      text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ",
      static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
      static_cast<unsigned>(date.day()), static_cast<int>(time.hours().count()),
      static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()),
      static_cast<int>(time.subseconds().count()));
  return {text.data(), static_cast<std::size_t>(length)};
}

BootTimer::BootTimer() : m_fd(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!m_fd) {
    throw core::system_error(core::Outcome::unavailable, "make", "a timer (timerfd)", errno);
  }
}

void BootTimer::set(std::chrono::milliseconds at) const noexcept {
  at = std::max(at, std::chrono::milliseconds(1)); // 0 would disarm it
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at);
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(seconds.count());
  when.it_value.tv_nsec = static_cast<long>(std::chrono::nanoseconds(at - seconds).count());
  ::timerfd_settime(m_fd.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

Deadline Deadline::after(std::chrono::milliseconds duration) noexcept {
  if (duration >= k_endless) {
    return never();
  }
  Deadline deadline;
  deadline.m_at =
      std::chrono::steady_clock::now() + std::max(duration, std::chrono::milliseconds::zero());
  return deadline;
}

Deadline Deadline::never() noexcept {
  Deadline deadline;
  deadline.m_never = true;
  return deadline;
}

std::chrono::milliseconds Deadline::left() const noexcept {
  if (m_never) {
    return std::chrono::milliseconds::max();
  }
  // Rounded up: zero must mean that the point has passed, or a poll would spin in the last
  // millisecond.
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(m_at - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds::zero());
}

int Deadline::poll_timeout() const noexcept {
  if (m_never) {
    return -1;
  }
  constexpr std::chrono::milliseconds k_most{std::numeric_limits<int>::max()};
  return static_cast<int>(std::min(left(), k_most).count());
}

} // namespace oncerun::os
