#include "core/error.hpp"

#include <cstring>

namespace oncerun::core {

Error system_error(Outcome outcome, std::string_view what, std::string_view path, int error,
                   std::string hint) {
  std::string message = "cannot ";
  message.append(what).append(" ").append(path).append(": ").append(std::strerror(error));
  return Error(outcome, message, std::move(hint));
}

} // namespace oncerun::core
