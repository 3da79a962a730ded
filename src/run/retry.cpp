#include "run/retry.hpp"

#include <algorithm>
#include <random>

namespace oncerun::run {

std::chrono::milliseconds retry_delay(std::chrono::milliseconds base, int retry) {
  constexpr int k_max_doublings = 10;
  const auto longest = base * (1 << std::min(retry - 1, k_max_doublings));
  std::random_device device;
  std::uniform_int_distribution<std::int64_t> spread(longest.count() / 2, longest.count());
  return std::chrono::milliseconds(spread(device));
}

Result retry_not_started(const Result& before, const Result& retry) {
  Result result = before;
  result.run = retry.run ? retry.run : before.run;
  result.status = retry.status.empty() ? before.status : retry.status;
  if (retry.outcome == core::Outcome::signalled) {
    result.outcome = retry.outcome;
    result.exit_code = retry.exit_code;
    result.reason = retry.reason;
  }
  return result;
}

} // namespace oncerun::run
