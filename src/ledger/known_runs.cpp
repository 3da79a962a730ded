#include "ledger/known_runs.hpp"

#include "core/hash.hpp"
#include "os/fd.hpp"
#include "os/file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>

namespace oncerun::ledger {

namespace {

// Where it stands in the liveness file: a page of its own for the mark, then the blocks. Holes read
// as zeros: a block that was never written knows nothing.
constexpr off_t k_mark_at = 4096;
constexpr off_t k_blocks_at = 8192;
constexpr std::string_view k_mark = "oncerun-known 1\n";

constexpr std::size_t k_block_size = 64;
constexpr std::uint64_t k_blocks = 1024;
constexpr int k_bits_a_run = 4;
constexpr unsigned k_bit_width = 9; // 512 bits a block

using Block = std::array<unsigned char, k_block_size>;

/// The block of a run, and its bits in it.
struct Place {
  off_t at;
  std::array<unsigned, k_bits_a_run> bits;
};

Place place_of(const core::RunKey& run) {
  // No name has a NUL, so the two cannot be mistaken for another pair.
  std::string text = run.job.text();
  text.push_back('\0');
  text += run.date.label();
  std::uint64_t hash = core::fnv1a(text);
  // FNV's high bits hardly see the last bytes, in which dates differ.
  hash = (hash ^ (hash >> 32U)) * 0x9E3779B97F4A7C15U;
  hash ^= hash >> 29U;
  Place place{k_blocks_at + static_cast<off_t>(hash % k_blocks * k_block_size), {}};
  hash /= k_blocks;
  for (unsigned& bit : place.bits) {
    bit = static_cast<unsigned>(hash & ((1U << k_bit_width) - 1));
    hash >>= k_bit_width;
  }
  return place;
}

template<typename Bytes>
bool read_at(int fd, Bytes& bytes, off_t at) noexcept {
  bytes.fill(0);
  ssize_t size = 0;
  do {
    size = ::pread(fd, bytes.data(), bytes.size(), at);
  } while (size < 0 && errno == EINTR);
  return size >= 0; // short at the file's end: the rest is zeros
}

os::UniqueFd open_file(const std::string& path, int flags) noexcept {
  return os::UniqueFd(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

} // namespace

bool KnownRuns::may_know(const core::RunKey& run) const noexcept {
  const os::UniqueFd fd = open_file(m_path, O_RDONLY);
  std::array<char, k_mark.size()> mark{};
  Block block{};
  const Place place = place_of(run);
  if (!fd || !read_at(fd.get(), mark, k_mark_at) ||
      std::string_view(mark.data(), mark.size()) != k_mark || !read_at(fd.get(), block, place.at)) {
    return true;
  }
  for (const unsigned bit : place.bits) {
    if ((block[bit / 8] & (1U << bit % 8)) == 0) {
      return false;
    }
  }
  return true;
}

void KnownRuns::add(const core::RunKey& run) const noexcept {
  const os::UniqueFd fd = open_file(m_path, O_RDWR);
  Block block{};
  const Place place = place_of(run);
  if (!fd || !read_at(fd.get(), block, place.at)) {
    return;
  }
  for (const unsigned bit : place.bits) {
    block[bit / 8] = static_cast<unsigned char>(block[bit / 8] | (1U << bit % 8));
  }
  // A full disk costs the guess, no more.
  (void)os::write_at(fd.get(), {reinterpret_cast<const char*>(block.data()), block.size()},
                     place.at);
}

void KnownRuns::begin() const noexcept {
  if (const os::UniqueFd fd = open_file(m_path, O_RDWR)) {
    (void)os::write_at(fd.get(), k_mark, k_mark_at);
  }
}

} // namespace oncerun::ledger
