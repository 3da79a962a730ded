#include "core/nearest.hpp"

#include <algorithm>
#include <vector>

namespace oncerun::core {

namespace {

/// One error in three characters is a plausible slip; more is another word.
constexpr std::size_t k_letters_per_error = 3;

std::string_view without_dashes(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('-'), text.size()));
  return text;
}

} // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table: the swap looks two rows back.
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::optional<std::string_view> nearest(std::string_view text,
                                        std::span<const std::string_view> candidates) {
  const std::string_view word = without_dashes(text);
  const std::size_t limit = (word.size() + k_letters_per_error - 1) / k_letters_per_error;
  std::optional<std::string_view> best;
  std::size_t best_distance = limit + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(text, candidate);
    // A candidate that keeps no character of the word is no typing error of it.
    if (distance < best_distance && distance < word.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

} // namespace oncerun::core
