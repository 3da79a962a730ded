#include "core/names.hpp"

#include "core/error.hpp"

#include <cstddef>

namespace oncerun::core {

namespace {

struct Sequence {
  std::size_t length; ///< 0: not a valid start
  unsigned char low;  ///< the range of the second byte
  unsigned char high;
};

/// The table of RFC 3629, section 4.
Sequence sequence_for(unsigned char first) noexcept {
  if (first < 0x80) {
    return {1, 0, 0};
  }
  if (first >= 0xC2 && first <= 0xDF) {
    return {2, 0x80, 0xBF};
  }
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned char low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned char high = first == 0xED ? 0x9F : 0xBF;
    return {3, low, high};
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned char low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned char high = first == 0xF4 ? 0x8F : 0xBF;
    return {4, low, high};
  }
  return {0, 0, 0};
}

} // namespace

bool is_utf8(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    const Sequence sequence = sequence_for(static_cast<unsigned char>(text[at]));
    if (sequence.length == 0 || at + sequence.length > text.size()) {
      return false;
    }
    for (std::size_t i = 1; i < sequence.length; ++i) {
      const auto byte = static_cast<unsigned char>(text[at + i]);
      const unsigned char low = i == 1 ? sequence.low : 0x80;
      const unsigned char high = i == 1 ? sequence.high : 0xBF;
      if (byte < low || byte > high) {
        return false;
      }
    }
    at += sequence.length;
  }
  return true;
}

bool has_control_character(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) {
      return true;
    }
    const bool c1 = byte == 0xC2 && i + 1 < text.size() &&
                    static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
                    static_cast<unsigned char>(text[i + 1]) <= 0x9F;
    if (c1) {
      return true;
    }
  }
  return false;
}

std::string title(const RunKey& run) {
  return run.job.text() + " " + run.date.label();
}

JobName JobName::parse(std::string_view text) {
  const std::string hint = "a job name is 1 to 200 bytes of UTF-8 without control characters";
  if (text.empty()) {
    throw UsageError("the job name is empty", hint);
  }
  if (text.size() > k_max_bytes) {
    throw UsageError("the job name has " + std::to_string(text.size()) + " bytes", hint);
  }
  if (!is_utf8(text)) {
    throw UsageError("the job name is not UTF-8", hint);
  }
  if (has_control_character(text)) {
    throw UsageError("the job name has a control character", hint);
  }
  return JobName(std::string(text));
}

} // namespace oncerun::core
