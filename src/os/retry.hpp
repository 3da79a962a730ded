#pragma once

#include <cerrno>

namespace oncerun::os {

/// A system call, again for as long as a signal interrupts it: EINTR is never a result. Returns
/// what the call returned, with its errno.
template<typename Call>
auto retry(const Call& call) noexcept {
  auto result = call();
  while (result < 0 && errno == EINTR) {
    result = call();
  }
  return result;
}

} // namespace oncerun::os
