#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace oncerun::core {

/// How many characters must be inserted, deleted, replaced or swapped with their neighbour to turn
/// one text into the other (restricted Damerau-Levenshtein distance); counted in bytes.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that `text` is most plausibly a typing error for; none if all are too far away.
/// Among equals the first.
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view text,
                                                      std::span<const std::string_view> candidates);

} // namespace oncerun::core
