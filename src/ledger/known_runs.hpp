#pragma once

#include "core/names.hpp"

#include <string>

namespace oncerun::ledger {

/// A guess that spares most starts a look: which runs the ledger may know. A Bloom filter
/// (Bloom 1970) of 64 KiB in the liveness file, behind its text, one 64-byte block a run.
///
/// It decides nothing. Whoever trusts a "no" claims at once, and the claim's transaction looks; a
/// wrong "no" (a power cut lost bits, a foreign program wrote the row) costs a skip that it takes
/// the lock, a wrong "maybe" costs one look. A ledger that is older than the filter, or whose
/// liveness file was lost, has none and is always looked at.
///
/// Nothing here throws or is synced.
class KnownRuns {
 public:
  explicit KnownRuns(std::string life_path) : m_path(std::move(life_path)) {}

  /// false: most likely there is no row.
  [[nodiscard]] bool may_know(const core::RunKey& run) const noexcept;
  /// Before a commit that makes a row, under the guard.
  void add(const core::RunKey& run) const noexcept;
  /// In the transaction that makes the tables: from here on every row is added.
  void begin() const noexcept;

 private:
  std::string m_path;
};

} // namespace oncerun::ledger
