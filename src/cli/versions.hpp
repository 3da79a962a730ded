#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace oncerun::cli {

struct Library {
  std::string_view name;
  std::string version;
};

/// oncerun's own version, from the build.
[[nodiscard]] std::string_view oncerun_version() noexcept;
/// The libraries it was built with. Each version comes from the one file that includes the library.
[[nodiscard]] std::vector<Library> libraries();

[[nodiscard]] std::string cli11_version();  // arguments.cpp
[[nodiscard]] std::string spdlog_version(); // stderr_log.cpp

} // namespace oncerun::cli
