// Periods, dates, instants and durations. Input, a line each: a period, the number of a zone, now
// (seconds since 1970), --scheduled-at, --date, a duration, an RFC 3339 instant.

#include "core/calendar.hpp"
#include "core/duration.hpp"
#include "core/instant.hpp"
#include "core/scheduled_at.hpp"
#include "core/text.hpp"
#include "core/when.hpp"
#include "fuzz/fuzz.hpp"
#include "unit/core/zones.hpp"

#include <algorithm>
#include <optional>

using namespace oncerun;
using fuzz::require;
using std::chrono::sys_seconds;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t k_last_second = 253'402'300'799; // 9999-12-31T23:59:59Z

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, core::is_digit);
}

std::optional<core::Period> check_period(const std::string& text) {
  core::Period period;
  if (!fuzz::accepts([&] { period = core::Period::parse(text); })) {
    return std::nullopt;
  }
  require(core::Period::parse(period.text()) == period, "a period is printed as it is read", text);
  const bool word =
      text == "day" || text == "hour" || text == "week" || text == "month" || text == "key";
  const bool counted = text.size() > 1 && all_digits(text.substr(0, text.size() - 1)) &&
                       (text.back() == 'm' || text.back() == 'h') && text[0] != '0';
  require(word || counted, "a period is a word, Nm or Nh", text);
  require(!period.below_day() || 1440 % period.minutes() == 0, "a period divides the day", text);
  return period;
}

/// The duration's grammar once more: numbers with units from large to small, each once; only the
/// last has a fraction; a number alone is seconds.
bool is_duration(std::string_view text) {
  static constexpr std::string_view k_order = "dhms";
  std::size_t next_unit = 0;
  bool had_fraction = false;
  const bool bare = text.find_first_of(k_order) == std::string_view::npos;
  while (!text.empty()) {
    const std::size_t unit = std::min(text.find_first_of(k_order), text.size());
    const std::string_view number = text.substr(0, unit);
    const std::size_t dot = number.find('.');
    const bool fraction = dot != std::string_view::npos;
    if (had_fraction || !all_digits(number.substr(0, dot)) ||
        (fraction && (!all_digits(number.substr(dot + 1)) || number.size() - dot > 4))) {
      return false;
    }
    if (unit == text.size()) {
      return bare;
    }
    const std::size_t order = k_order.find(text[unit]);
    if (order < next_unit) {
      return false;
    }
    next_unit = order + 1;
    had_fraction = fraction;
    text.remove_prefix(unit + 1);
  }
  return next_unit != 0;
}

void check_duration(const std::string& text) {
  std::chrono::milliseconds duration{};
  if (!fuzz::accepts([&] { duration = core::parse_duration(text, "--wait"); })) {
    // What has few digits cannot be too long.
    require(text.size() > 5 || !is_duration(text), "a duration of the grammar is accepted", text);
    return;
  }
  require(is_duration(text), "a duration obeys its grammar", text);
  require(duration >= 0ms && duration <= core::k_max_duration, "a duration is in range", text);
  const std::string printed = core::print_duration(duration);
  require(core::parse_duration(printed, "x") == duration, "a duration is read as it was printed",
          printed);
}

void check_instant(const std::string& text, const core::Zone& zone) {
  const auto instant = core::parse_rfc3339(text);
  if (!instant) {
    return;
  }
  require(text.size() >= 20 && all_digits(text.substr(0, 4)), "an instant has the form of RFC 3339",
          text);
  if (instant->time_since_epoch() < 0ms || instant->time_since_epoch() / 1s > k_last_second) {
    return; // at the ends of the years an offset leads out of what can be printed
  }
  require(core::parse_rfc3339(core::print_rfc3339(*instant)) == instant,
          "an instant is read as it was printed", text);
  const auto whole = std::chrono::floor<std::chrono::seconds>(*instant);
  require(core::parse_rfc3339(core::print_rfc3339(whole)) == whole, "also without a fraction",
          text);
  if (whole > sys_seconds(24h) && whole < sys_seconds(std::chrono::seconds(k_last_second)) - 24h) {
    const std::string local = core::print_local_rfc3339(zone, whole);
    require(core::parse_rfc3339(local) == whole, "a local clock means the same instant", local);
  }
}

void check_slot(const core::Slot& slot, const core::Period& period, const core::Zone& zone) {
  const std::string& label = slot.label.label();
  require(slot.start < slot.end, "a slot has a length", label);
  require(core::slot_labelled(period, zone, label) == slot, "a label names its slot", label);
  require(core::slot_at(period, zone, slot.start) == slot, "a slot has its first instant", label);
  require(core::slot_at(period, zone, slot.end - 1s) == slot, "a slot has its last instant", label);
  std::optional<core::Slot> before;
  if (fuzz::accepts([&] { before = core::previous_slot(period, zone, slot); })) {
    require(before->end == slot.start && before->label < slot.label,
            "slots tile time, and their labels sort", label);
    require(core::next_slot(period, zone, *before) == slot, "forth and back", label);
  }
}

bool is_word(std::string_view text) {
  return std::ranges::any_of(
      std::vector<std::string_view>{"this", "previous", "today", "yesterday"},
      [text](std::string_view word) {
        return text == word || (text.starts_with(word) && text[word.size()] == '-');
      });
}

void check_when(const std::string& text, const core::Period& period, const core::Zone& zone,
                sys_seconds from, sys_seconds now) {
  bool was_label = false;
  std::optional<core::Slot> slot;
  if (!fuzz::accepts(
          [&] { slot = core::resolve_when(text, period, zone, from, now, was_label); })) {
    return;
  }
  if (period.is_key()) {
    require(slot->label.label() == text && was_label, "a key is its own label", text);
    require(!text.empty() && text.size() <= 512 && core::is_utf8(text) &&
                !core::has_control_character(text),
            "a key is clean", text);
    return;
  }
  require(slot->start <= std::max(from, now), "no period that has not begun", text);
  require(was_label != is_word(text), "a word is no label", text);
  require(!was_label || slot->label.label() == text, "a label has one spelling", text);
  check_slot(*slot, period, zone);
}

std::optional<sys_seconds> check_scheduled(const std::string& text, sys_seconds now) {
  sys_seconds from;
  if (!fuzz::accepts([&] { from = core::parse_scheduled_at(text, now); })) {
    return std::nullopt;
  }
  require(from <= now + 24h, "nothing is believed that lies more than a day ahead", text);
  if (text.starts_with("k8s:")) {
    require(from >= now - 24h * 400, "a Job's name is believed for 400 days", text);
    require(text.ends_with("-" + text.substr(text.rfind('-') + 1)) &&
                std::chrono::minutes(std::stoll(text.substr(text.rfind('-') + 1))) ==
                    from.time_since_epoch(),
            "the minutes stand behind the last hyphen", text);
  } else if (text.starts_with("@")) {
    require(from.time_since_epoch().count() == std::stoll(text.substr(1)), "@ counts seconds",
            text);
  } else {
    const auto instant = core::parse_rfc3339(text);
    require(instant && std::chrono::floor<std::chrono::seconds>(*instant) == from,
            "all else is RFC 3339", text);
  }
  return from;
}

} // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<test::TableZone> s_zones = test::all_zones();
  std::vector<std::string> lines = fuzz::split(fuzz::text_of(data, size), '\n');
  lines.resize(std::max<std::size_t>(lines.size(), 7));
  const auto number = core::parse_number(lines[1], 1'000'000).value_or(0);
  const core::Zone& zone = s_zones[static_cast<std::size_t>(number) % s_zones.size()];
  const sys_seconds now{
      std::chrono::seconds(core::parse_number(lines[2], k_last_second).value_or(1'793'000'000))};
  check_duration(lines[5]);
  check_instant(lines[6], zone);
  const auto scheduled = check_scheduled(lines[3], now);
  if (const auto period = check_period(lines[0])) {
    check_when(lines[4], *period, zone, scheduled.value_or(now), now);
  }
  return 0;
}
