#include "cli/versions.hpp"

#include "core/state_document.hpp"
#include "ledger/sqlite_ledger.hpp"
#include "lock/redis_client.hpp"

#include <fmt/core.h>

namespace oncerun::cli {

std::string_view oncerun_version() noexcept {
  return ONCERUN_VERSION;
}

std::vector<Library> libraries() {
  const std::string fmt_version = std::to_string(FMT_VERSION / 10000) + "." +
                                  std::to_string(FMT_VERSION / 100 % 100) + "." +
                                  std::to_string(FMT_VERSION % 100);
  return {{"SQLite", ledger::sqlite_version()},
          {"hiredis", lock::hiredis_version()},
          {"nlohmann_json", core::json_library_version()},
          {"CLI11", cli11_version()},
          {"spdlog", spdlog_version()},
          {"fmt", fmt_version}};
}

} // namespace oncerun::cli
