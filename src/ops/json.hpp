#pragma once

#include "core/ledger.hpp"
#include "ops/output.hpp"

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace oncerun::ops {

// What programs read: keys in snake_case that never change their meaning, instants in UTC as in the
// ledger, null where something is not known. New keys may be added. No other file of this folder
// includes nlohmann's headers.

using Json = nlohmann::ordered_json;

/// null for an empty text.
[[nodiscard]] Json text_or_null(std::string_view text);
template<class Number>
[[nodiscard]] Json number_or_null(const std::optional<Number>& number) {
  return number ? Json(*number) : Json(nullptr);
}

/// One run as it was seen, with `reads_as` (standing.hpp) and the owner's life.
[[nodiscard]] Json json_of(const core::RunKey& key, const core::Sighting& sighting);
[[nodiscard]] Json json_of(const core::AttemptRecord& attempt);
[[nodiscard]] Json json_of(const core::EventRecord& event);
[[nodiscard]] Json json_of(const core::JobRecord& job);
[[nodiscard]] Json json_of(const core::Usage& usage);

/// The document as text, two-space indent, a final newline. Never throws for bytes that are not
/// UTF-8: they become U+FFFD.
[[nodiscard]] std::string text_of(const Json& document);
void print(Output& output, const Json& document);

} // namespace oncerun::ops
