#pragma once

namespace oncerun::cli {

/// The whole program: splits, parses, composes, runs or looks, and turns every error into a
/// message, a hint and an exit code. The only place that catches.
[[nodiscard]] int main(int argc, const char* const* argv, const char* const* environ);

} // namespace oncerun::cli
