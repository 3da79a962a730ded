#pragma once

#include "core/error.hpp"

#include <string>

namespace oncerun::cli {

/// What to do about an error; a wrong command line always has something.
[[nodiscard]] std::string hint_of(const core::Error& error);

/// The whole program: splits, parses, composes, runs or looks, and turns every error into a
/// message, a hint and an exit code. The only place that catches.
[[nodiscard]] int main(int argc, const char* const* argv, const char* const* environ);

} // namespace oncerun::cli
