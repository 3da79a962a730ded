#include "core/when.hpp"

#include "core/error.hpp"
#include "core/text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace oncerun::core {

namespace {

using std::chrono::sys_seconds;

struct Word {
  std::string_view text;
  int steps_back;
  bool days_only;
};

constexpr std::array<Word, 4> k_words{
    {{"this", 0, false}, {"previous", 1, false}, {"today", 0, true}, {"yesterday", 1, true}}};

/// The word that `text` is or begins with, followed by the hyphen of `-N`.
const Word* word_of(std::string_view text) {
  const auto* found = std::ranges::find_if(k_words, [text](const Word& word) {
    return text.starts_with(word.text) &&
           (text.size() == word.text.size() || text[word.text.size()] == '-');
  });
  return found == k_words.end() ? nullptr : found;
}

Slot relative(std::string_view text, const Word& word, const Period& period, const Zone& zone,
              sys_seconds counted_from) {
  if (word.days_only && !period.is_day()) {
    throw UsageError("--date: " + quote(text) + " is for days, but the period is " + period.text(),
                     "write " + std::string(word.steps_back == 0 ? "this" : "previous"));
  }
  int back = word.steps_back;
  if (text.size() > word.text.size()) {
    const auto number = parse_number(text.substr(word.text.size() + 1), k_max_steps_back);
    if (!number) {
      throw UsageError("--date: " + quote(text) + " does not say how many periods to go back",
                       "write " + std::string(word.text) + "-N with N up to " +
                           std::to_string(k_max_steps_back));
    }
    back += static_cast<int>(*number);
  }
  const Slot current = slot_at(period, zone, counted_from);
  return back == 0 ? current : step(period, zone, current, -back);
}

Slot key_slot(std::string_view text) {
  const std::string hint =
      "a key is 1 to 512 bytes of UTF-8 without control characters: an order number, a file";
  if (text.empty()) {
    throw UsageError("--date: the key is empty", hint);
  }
  if (text.size() > BizDate::k_max_bytes) {
    throw UsageError("--date: the key has " + std::to_string(text.size()) + " bytes", hint);
  }
  if (!is_utf8(text)) {
    throw UsageError("--date: the key is not UTF-8", hint);
  }
  if (has_control_character(text)) {
    throw UsageError("--date: the key has a control character", hint);
  }
  return {BizDate(std::string(text)), sys_seconds{}, sys_seconds{}};
}

} // namespace

Slot resolve_when(std::string_view text, const Period& period, const Zone& zone,
                  sys_seconds counted_from, sys_seconds now, bool& was_label) {
  if (period.is_key()) {
    was_label = true;
    return key_slot(text);
  }
  const Word* word = word_of(text);
  was_label = word == nullptr;
  Slot slot = word != nullptr ? relative(text, *word, period, zone, counted_from)
                              : slot_labelled(period, zone, text);
  if (slot.start > std::max(now, counted_from)) {
    throw UsageError("--date: " + slot.label.label() + " has not begun",
                     "in " + zone.name() + " it is still " +
                         slot_at(period, zone, std::max(now, counted_from)).label.label());
  }
  return slot;
}

} // namespace oncerun::core
