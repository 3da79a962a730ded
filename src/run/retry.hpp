#pragma once

#include "run/result.hpp"

#include <chrono>

namespace oncerun::run {

/// How long to wait before the retry-th further attempt (from 1): doubled each time, with jitter
/// over the upper half, so that hosts do not retry in step.
[[nodiscard]] std::chrono::milliseconds retry_delay(std::chrono::milliseconds base, int retry);

/// An invocation that ran its command once did start it, whatever became of the retry. Its exit
/// code is that of the last attempt that ran, or of the signal that came before the next one.
[[nodiscard]] Result retry_not_started(const Result& before, const Result& retry);

} // namespace oncerun::run
