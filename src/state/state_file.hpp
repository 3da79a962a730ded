#pragma once

#include "core/names.hpp"
#include "core/state_document.hpp"
#include "os/atomic_file.hpp"

#include <functional>
#include <optional>
#include <string>
#include <variant>

namespace oncerun::state {

/// Whether a text of the file is the label of a period of this job that has begun. Empty: not
/// checked (by commands that do not know the period).
using IsValidDate = std::function<bool(const core::BizDate&)>;

struct Absent {};
/// There is a file, and it cannot be read as a state file: unknown, never "first run".
struct Unreadable {
  std::string why; ///< one clause, without the file's name
};
using Reading = std::variant<Absent, core::StateDocument, Unreadable>;

/// Reads the state file at `path`. Passive. A document of another job or period is an Error
/// (config); `job` and `every` may be empty: not compared. A file that we may not read, and a
/// folder where a file is expected, are an Error (unwritable). In what is returned a pending date
/// is set only if it is open or unsettled: the one of a finished run is dropped.
[[nodiscard]] Reading read_state(const std::string& path, const std::string& job,
                                 const std::string& every, const IsValidDate& is_valid_date);

/// Keeps the content of a broken file under a name of its own beside it, "FILE.broken-" and the
/// time, and returns that name. The file itself stays until it is replaced, so that no instant
/// finds it missing. Throws Error (unwritable).
[[nodiscard]] std::string keep_aside(const std::string& path);

/// The state file as the projection of a ledger.
class Projection {
 public:
  /// Touches nothing.
  Projection(std::string path, std::string job, std::string every, IsValidDate is_valid_date);

  /// Proves that the file can be replaced and takes room for one write(), which then also succeeds
  /// on a disk that is full by then. Throws Error (unwritable; config for another job's file).
  void reserve();

  /// Writes `projected`, with the unknown keys of the file as it stands, and never with an older
  /// lastPublishedDate than the file's. A file that cannot be read as such is kept aside first:
  /// then its new name is returned, to be said. Throws Error (unwritable, config).
  [[nodiscard]] std::optional<std::string> write(const core::StateDocument& projected);

  /// Clears away what killed writers left beside the file.
  void remove_leftovers() const noexcept { os::remove_stale_temporaries(m_path); }

 private:
  std::string m_path;
  std::string m_job;
  std::string m_every;
  IsValidDate m_is_valid_date;
  std::optional<os::AtomicFile> m_reserved;
};

/// Room for one document of ours: its fields are bounded by far less, and what the file has of its
/// own comes on top.
[[nodiscard]] std::size_t room_for(const core::StateDocument& document);

} // namespace oncerun::state
