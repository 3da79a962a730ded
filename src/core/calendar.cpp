#include "core/calendar.hpp"

#include "core/error.hpp"
#include "core/instant.hpp"
#include "core/local_clock.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

namespace oncerun::core {

namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using std::chrono::year_month_day;

constexpr int k_first_year = 1970;
constexpr int k_last_year = 9999;

[[noreturn]] void refuse_year() {
  throw UsageError("--date: the period lies outside the years 1970 to 9999");
}

// --- days, weeks and months: numbered from the one that contains 1970-01-01

constexpr int k_months_of_year = 12;
constexpr days k_week(7);
/// 1970-01-01 was a Thursday: its week began three days before it, and has the number 0.
constexpr sys_days k_first_monday(days(-3));
/// ISO 8601: a week belongs to the year of its Thursday.
constexpr days k_to_thursday(3);

std::int64_t number_of(const Period& period, sys_days date) {
  if (period.is_day()) {
    return date.time_since_epoch().count();
  }
  if (period.is_week()) {
    return std::chrono::floor<std::chrono::weeks>(date - k_first_monday).count();
  }
  const year_month_day civil(date);
  const auto month = static_cast<int>(static_cast<unsigned>(civil.month()));
  return std::int64_t{static_cast<int>(civil.year()) - k_first_year} * k_months_of_year + month - 1;
}

sys_days first_date(const Period& period, std::int64_t number) {
  if (period.is_day()) {
    return sys_days(days(number));
  }
  if (period.is_week()) {
    return k_first_monday + number * k_week;
  }
  const std::chrono::year_month first(std::chrono::year(k_first_year), std::chrono::January);
  return sys_days((first + std::chrono::months(number)) / 1);
}

/// The year that stands in the label of the period that begins with `first`.
std::chrono::year label_year(const Period& period, sys_days first) {
  return year_month_day(period.is_week() ? first + k_to_thursday : first).year();
}

std::string label_of(const Period& period, sys_days first) {
  const std::chrono::year year = label_year(period, first);
  std::string text;
  append_padded(text, static_cast<int>(year), 4);
  if (period.is_week()) {
    const auto weeks_before = (first + k_to_thursday - sys_days(year / 1 / 1)) / k_week;
    text += "-W";
    append_padded(text, weeks_before + 1, 2);
    return text;
  }
  const year_month_day civil(first);
  text += '-';
  append_padded(text, static_cast<unsigned>(civil.month()), 2);
  if (period.is_day()) {
    text += '-';
    append_padded(text, static_cast<unsigned>(civil.day()), 2);
  }
  return text;
}

Slot numbered(const Period& period, const Zone& zone, std::int64_t number) {
  const sys_days first = first_date(period, number);
  const std::chrono::year year = label_year(period, first);
  if (year < std::chrono::year(k_first_year) || year > std::chrono::year(k_last_year)) {
    refuse_year();
  }
  return {BizDate(label_of(period, first)), first_instant(zone, first),
          first_instant(zone, first_date(period, number + 1))};
}

/// Whether there is a period with that number: only a day can be missing, where a zone went over
/// the date line. Looks at noon first, which is cheap and nearly always decides.
bool exists(const Period& period, const Zone& zone, std::int64_t number) {
  if (!period.is_day()) {
    return true;
  }
  const sys_days date = first_date(period, number);
  const sys_seconds noon = date + 12h;
  return date_of(local_at(zone, noon - zone.offset_at(noon))) == date ||
         date_of(local_at(zone, first_instant(zone, date))) == date;
}

/// The number of the period that contains `instant`. Where a clock is put back over midnight its
/// date goes back too, but the new day has begun: hence by starts and not by the date alone.
std::int64_t number_at(const Period& period, const Zone& zone, sys_seconds instant) {
  std::int64_t number = number_of(period, date_of(local_at(zone, instant)));
  while (first_instant(zone, first_date(period, number + 1)) <= instant) {
    ++number;
  }
  return number;
}

Slot step_numbered(const Period& period, const Zone& zone, const Slot& slot, int count) {
  std::int64_t number = number_at(period, zone, slot.start);
  const int direction = count < 0 ? -1 : 1;
  for (int left = count; left != 0; left -= direction) {
    do {
      number += direction;
    } while (!exists(period, zone, number));
  }
  return numbered(period, zone, number);
}

// --- parts of the day

seconds length_of(const Period& period) {
  return std::chrono::minutes(period.minutes());
}

seconds since_boundary(const Period& period, sys_seconds local) {
  return (local - date_of(local)) % length_of(period);
}

/// Date and index of the part that a local clock shows.
std::tuple<sys_days, std::int64_t> part_of(const Period& period, sys_seconds local) {
  return {date_of(local), (local - date_of(local)) / length_of(period)};
}

/// Whether a slot begins at `instant`, the first instant of a new offset.
bool begins_at_change(const Period& period, const Zone& zone, sys_seconds instant) {
  const sys_seconds local = local_at(zone, instant);
  return since_boundary(period, local) == 0s ||
         part_of(period, local) != part_of(period, local_at(zone, instant - 1s));
}

/// The start of the slot that contains `instant`.
sys_seconds part_start(const Period& period, const Zone& zone, sys_seconds instant) {
  while (true) {
    const sys_seconds boundary = instant - since_boundary(period, local_at(zone, instant));
    const auto change = change_within_day(zone, boundary, instant);
    if (!change) {
      return boundary;
    }
    if (begins_at_change(period, zone, *change)) {
      return *change;
    }
    instant = *change - 1s; // in the same slot, but by the offset before the change
  }
}

/// The end of the slot that contains `instant`: the next start after it.
sys_seconds part_end(const Period& period, const Zone& zone, sys_seconds instant) {
  while (true) {
    const sys_seconds boundary =
        instant + length_of(period) - since_boundary(period, local_at(zone, instant));
    const auto change = change_within_day(zone, instant, boundary);
    if (!change) {
      return boundary;
    }
    if (begins_at_change(period, zone, *change)) {
      return *change;
    }
    instant = *change;
  }
}

/// "2026-10-26T18:00Z"; with seconds only where an offset has some (Liberia until 1972).
std::string part_label(sys_seconds start) {
  std::string text = print_rfc3339(start);
  constexpr std::string_view k_no_seconds = ":00Z";
  if (text.ends_with(k_no_seconds)) {
    text.replace(text.size() - k_no_seconds.size(), k_no_seconds.size(), "Z");
  }
  return text;
}

Slot part_from(const Period& period, const Zone& zone, sys_seconds start) {
  const std::chrono::year year = year_month_day(date_of(start)).year();
  if (year < std::chrono::year(k_first_year) || year > std::chrono::year(k_last_year)) {
    refuse_year();
  }
  return {BizDate(part_label(start)), start, part_end(period, zone, start)};
}

Slot step_parts(const Period& period, const Zone& zone, const Slot& slot, int count) {
  sys_seconds start = slot.start;
  for (; count > 0; --count) {
    start = part_end(period, zone, start);
  }
  for (; count < 0; ++count) {
    start = part_start(period, zone, start - 1s);
  }
  return part_from(period, zone, start);
}

// --- labels

std::string_view form_of(const Period& period) {
  if (period.is_day()) {
    return "2026-10-26";
  }
  if (period.is_week()) {
    return "2026-W44";
  }
  return period.is_month() ? "2026-10" : "2026-10-26T18:00Z";
}

/// Whether `label` has digits where `form` has some, and else the same characters.
bool has_form(std::string_view label, std::string_view form) {
  return std::ranges::equal(label, form, [](char have, char want) {
    return is_digit(want) ? is_digit(have) : have == want;
  });
}

[[noreturn]] void refuse_form(const Period& period, std::string_view label) {
  throw UsageError("--date: " + quote(label) + " is no label of --every " + period.text(),
                   "write it like " + std::string(form_of(period)) + ", or this, previous, this-3");
}

/// The first date of the period that `label` names, if the label has the form and that period
/// exists in the calendar.
std::optional<sys_days> date_named(const Period& period, std::string_view label) {
  const auto number = [label](std::size_t at, std::size_t digits) {
    return static_cast<int>(parse_number(label.substr(at, digits), k_last_year).value_or(0));
  };
  const std::chrono::year year(number(0, 4));
  if (period.is_week()) {
    // ISO 8601: January 4th lies in the first week of its year.
    const std::int64_t first_week = number_of(period, sys_days(year / 1 / 4));
    const sys_days first = first_date(period, first_week + number(6, 2) - 1);
    return label_of(period, first) == label ? std::optional(first) : std::nullopt;
  }
  const int day = period.is_day() ? number(8, 2) : 1;
  const year_month_day civil = year / number(5, 2) / day;
  return civil.ok() ? std::optional(sys_days(civil)) : std::nullopt;
}

Slot numbered_labelled(const Period& period, const Zone& zone, std::string_view label) {
  if (!has_form(label, form_of(period))) {
    refuse_form(period, label);
  }
  const std::optional<sys_days> first = date_named(period, label);
  if (!first) {
    throw UsageError("--date: " + quote(label) + " does not exist in the calendar");
  }
  const std::int64_t number = number_of(period, *first);
  if (!exists(period, zone, number)) {
    throw UsageError("--date: " + quote(label) + " never existed in " + zone.name(),
                     "clocks there went over the date line and left that date out");
  }
  return numbered(period, zone, number);
}

Slot part_labelled(const Period& period, const Zone& zone, std::string_view label) {
  const bool with_seconds = has_form(label, "2026-10-26T18:00:30Z");
  if (!with_seconds && !has_form(label, form_of(period))) {
    refuse_form(period, label);
  }
  const std::string full =
      with_seconds ? std::string(label) : std::string(label.substr(0, label.size() - 1)) + ":00Z";
  const auto instant = parse_rfc3339(full);
  if (!instant) {
    throw UsageError("--date: " + quote(label) + " does not exist in the calendar");
  }
  Slot slot = slot_at(period, zone, std::chrono::floor<seconds>(*instant));
  if (slot.label.label() != label) {
    throw UsageError("--date: " + quote(label) + " is not the start of a slot of " + period.text() +
                         " in " + zone.name(),
                     "the slot that contains it is " + slot.label.label());
  }
  return slot;
}

} // namespace

Slot slot_at(const Period& period, const Zone& zone, sys_seconds instant) {
  if (period.below_day()) {
    return part_from(period, zone, part_start(period, zone, instant));
  }
  return numbered(period, zone, number_at(period, zone, instant));
}

Slot step(const Period& period, const Zone& zone, const Slot& slot, int count) {
  return period.below_day() ? step_parts(period, zone, slot, count)
                            : step_numbered(period, zone, slot, count);
}

Slot previous_slot(const Period& period, const Zone& zone, const Slot& slot) {
  return step(period, zone, slot, -1);
}

Slot next_slot(const Period& period, const Zone& zone, const Slot& slot) {
  return step(period, zone, slot, 1);
}

Slot slot_labelled(const Period& period, const Zone& zone, std::string_view label) {
  return period.below_day() ? part_labelled(period, zone, label)
                            : numbered_labelled(period, zone, label);
}

} // namespace oncerun::core
