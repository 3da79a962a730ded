#pragma once

#include "core/decide.hpp"
#include "core/records.hpp"
#include "os/fd.hpp"
#include "os/host.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace oncerun::os {

/// The liveness file: a small text file with a random id and the highest token seen, and far beyond
/// its end two bytes an attempt that are locked and never written (design, section 5, "Is the owner
/// alive?"). The offset comes from the attempt's serial, so nothing is reused and nothing piles up.
/// Never unlinked by us.
class LifeFile {
 public:
  /// Opens an existing file, or makes one with a fresh id. `owner_of` names the file whose owner a
  /// new one gets when root makes it (the ledger), so that it shuts nobody out.
  /// Throws Error (unwritable, config when it is no liveness file).
  [[nodiscard]] static LifeFile open(const std::string& path, const std::string& owner_of);
  /// For looking: opens read-only, makes nothing. `exists()` is false when the file is missing or
  /// may not be read, and then nothing can be proven by it. Throws Error (unavailable).
  [[nodiscard]] static LifeFile look(const std::string& path);

  [[nodiscard]] bool exists() const noexcept { return static_cast<bool>(m_fd); }
  [[nodiscard]] const std::string& path() const noexcept { return m_path; }
  /// Empty while the file does not exist.
  /// The random id and the inode.
  [[nodiscard]] const std::string& id() const noexcept { return m_id; }
  /// Highest token ever remembered here; 0 for none.
  [[nodiscard]] std::int64_t highest_token() const;
  /// Keeps the larger of `token` and what stands there; not synced, since after a power cut a lower
  /// value merely protects less. Call after the commit that made the token durable, never before: a
  /// remembered token that the ledger does not have makes it look like a restored copy. Callers
  /// exclude each other (the guard). Throws Error (unwritable).
  void remember_token(std::int64_t token);
  /// A fresh id, in place and synced: attempts of before are not provable any more. Only
  /// `ledger accept`. Throws Error (unwritable).
  void renew_id();

  /// Judges the owner of an attempt without a recorded end. `self` is this process's identity
  /// (life_id is taken from this file). Does not re-read the row: the caller must, after "dead".
  /// On alive and orphaned `pids` gets what can be seen of it.
  [[nodiscard]] core::OwnerLife judge(const core::OwnerIdentity& attempt, std::int64_t serial,
                                      const std::string& run_id, const core::OwnerIdentity& self,
                                      std::vector<pid_t>& pids) const;
  /// Whether the owner's byte of this serial is held; cheap (one system call).
  [[nodiscard]] bool owner_byte_held(std::int64_t serial) const;

 private:
  friend class HeldLife;
  void read_or_make_id();
  [[nodiscard]] std::vector<pid_t> tree_of(std::int64_t serial, const std::string& run_id,
                                           bool same_boot, bool byte_held) const;

  std::string m_path;
  std::string m_id;
  UniqueFd m_fd;
};

/// The two bytes of one attempt, held. The tree's byte sits on a description of its own, which the
/// command inherits.
class HeldLife {
 public:
  /// Throws Error (unwritable); the bytes of a fresh serial are free unless the file is foreign.
  [[nodiscard]] static HeldLife take(const LifeFile& file, std::int64_t serial);
  HeldLife() = default;
  HeldLife(HeldLife&&) noexcept = default;
  HeldLife& operator=(HeldLife&&) noexcept = default;

  [[nodiscard]] int tree_fd() const noexcept { return m_tree.get(); }
  /// Unlocks the tree's byte explicitly: daemons that inherited the descriptor hold nothing.
  void release_tree() noexcept;

 private:
  std::int64_t m_serial = 0;
  UniqueFd m_owner;
  UniqueFd m_tree;
};

} // namespace oncerun::os
