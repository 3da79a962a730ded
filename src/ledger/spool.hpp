#pragma once

#include "core/records.hpp"
#include "os/fd.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace oncerun::ledger {

/// A result that the ledger could not take, as it stands in the spool.
struct SpooledResult {
  std::string ledger_id;
  std::string run_id;
  std::int64_t serial = 0;
  core::Token token;
  std::string ended_at;
  core::AttemptResult result;
};

/// What one slot holds.
struct SpoolEntry {
  std::string path;
  std::int64_t offset = 0;
  std::string bytes;                   ///< as read: only this very content is cleared
  std::optional<SpooledResult> result; ///< none: torn, or not ours
};

/// One slot of a spool, reserved by a lock on its first byte for as long as its attempt lives.
class SpoolSlot {
 public:
  SpoolSlot() = default;
  SpoolSlot(os::UniqueFd fd, std::string path, std::int64_t offset)
      : m_fd(std::move(fd)), m_path(std::move(path)), m_offset(offset) {}

  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(m_fd); }
  [[nodiscard]] const std::string& path() const noexcept { return m_path; }
  /// Overwrites the slot in place and syncs it. Throws Error (unwritable).
  void write(const SpooledResult& result);

 private:
  os::UniqueFd m_fd;
  std::string m_path;
  std::int64_t m_offset = 0;
};

/// A file of slots of 512 bytes: what one attempt may leave behind when the ledger cannot take its
/// result. The slots are written and synced in blocks of 64 before they are handed out, so that
/// putting a result there needs no space. An empty slot is all zeros. Nothing here is ever
/// unlinked. Reserving, growing and clearing happen under the ledger's guard; write() does not need
/// it.
class Spool {
 public:
  static constexpr std::int64_t k_slot_size = 512;
  static constexpr std::int64_t k_block_slots = 64;

  /// `owner_of`: the file whose owner a new spool gets when root makes it.
  Spool(std::string path, std::string owner_of)
      : m_path(std::move(path)), m_owner_of(std::move(owner_of)) {}

  [[nodiscard]] const std::string& path() const noexcept { return m_path; }
  /// Reserves an empty slot, growing the file if there is none; `hint` (the serial) spreads the
  /// searches of a stampede. Throws Error (unwritable).
  [[nodiscard]] SpoolSlot reserve(std::int64_t hint) const;
  /// Everything that is not empty; nothing if there is no file. Throws Error (unavailable).
  [[nodiscard]] std::vector<SpoolEntry> entries() const;
  /// Empties the slot if it still holds what was read. Throws Error (unwritable).
  static void clear(const SpoolEntry& entry);

 private:
  std::string m_path;
  std::string m_owner_of;
};

/// The 512 bytes of a slot: a line with a checksum of the rest, then NAME=VALUE lines, zeros.
[[nodiscard]] std::string print_slot(const SpooledResult& result);
/// nullopt if torn or foreign.
[[nodiscard]] std::optional<SpooledResult> parse_slot(std::string_view bytes);

} // namespace oncerun::ledger
