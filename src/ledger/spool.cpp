#include "ledger/spool.hpp"

#include "core/error.hpp"
#include "core/hash.hpp"
#include "os/byte_lock.hpp"
#include "os/file.hpp"
#include "os/file_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <map>

namespace oncerun::ledger {

namespace {

constexpr std::string_view k_magic = "oncerun-result 1 ";
constexpr std::size_t k_sum_size = 16;
constexpr std::size_t k_body_at = k_magic.size() + k_sum_size + 1;
constexpr std::size_t k_slot = static_cast<std::size_t>(Spool::k_slot_size);
constexpr std::size_t k_longest_note = 120;

/// Against a torn write.
std::string checksum(std::string_view bytes) {
  char text[k_sum_size + 1];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(core::fnv1a(bytes)));
  return text;
}

template<typename Number>
bool read_number(const std::map<std::string, std::string, std::less<>>& fields,
                 std::string_view name, Number& number) {
  const auto field = fields.find(name);
  if (field == fields.end()) {
    return false;
  }
  const char* end = field->second.data() + field->second.size();
  const auto [stop, error] = std::from_chars(field->second.data(), end, number);
  return error == std::errc{} && stop == end;
}

std::optional<core::RunStatus> status_named(std::string_view name) {
  using core::RunStatus;
  for (const RunStatus status : {RunStatus::done, RunStatus::failed, RunStatus::unknown}) {
    if (core::name_of(status) == name) {
      return status;
    }
  }
  return std::nullopt;
}

std::map<std::string, std::string, std::less<>> fields_of(std::string_view body) {
  std::map<std::string, std::string, std::less<>> fields;
  body = body.substr(0, body.find('\0'));
  while (!body.empty()) {
    const std::string_view line = body.substr(0, body.find('\n'));
    body.remove_prefix(std::min(body.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos) {
      fields.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
  }
  return fields;
}

std::string one_line(std::string_view text, std::size_t longest) {
  std::string line(text.substr(0, longest));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\0'; }, ' ');
  return line;
}

/// Every byte equals the one before it, and the first is zero: memcmp(3) is quick.
bool is_empty(std::string_view bytes) noexcept {
  return bytes.empty() ||
         (bytes[0] == '\0' && bytes.substr(1) == bytes.substr(0, bytes.size() - 1));
}

/// What stands at `offset`, up to `size` bytes; shorter at the file's end.
std::string read_at(int fd, std::int64_t offset, std::size_t size, const std::string& path) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = ::pread(fd, bytes.data() + have, size - have,
                                static_cast<off_t>(offset) + static_cast<off_t>(have));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      throw core::system_error(core::Outcome::unavailable, "read", path, errno);
    }
    if (got == 0) {
      break;
    }
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

void sync(int fd, const std::string& path) {
  while (::fdatasync(fd) != 0) {
    if (errno != EINTR) {
      throw os::unwritable_error("sync", path, errno);
    }
  }
}

void write_slot(int fd, std::string_view bytes, std::int64_t offset, const std::string& path) {
  if (const int error = os::write_at(fd, bytes, static_cast<off_t>(offset)); error != 0) {
    throw os::unwritable_error("write", path, error);
  }
}

} // namespace

std::string print_slot(const SpooledResult& spooled) {
  const core::AttemptResult& result = spooled.result;
  std::string body;
  const auto put = [&](std::string_view name, const std::string& value) {
    body.append(name).append("=").append(value).append("\n");
  };
  put("ledger", spooled.ledger_id);
  put("run", spooled.run_id);
  put("serial", std::to_string(spooled.serial));
  put("token", std::to_string(spooled.token.value));
  put("ended", spooled.ended_at);
  put("status", std::string(core::name_of(result.status)));
  put("never_started", result.never_started ? "1" : "0");
  if (result.exit_code) {
    put("exit", std::to_string(*result.exit_code));
  }
  if (result.signal) {
    put("signal", std::to_string(*result.signal));
  }
  put("user_us", std::to_string(result.usage.user.count()));
  put("system_us", std::to_string(result.usage.system.count()));
  put("max_rss_kib", std::to_string(result.usage.max_rss_kib));
  put("note", one_line(result.note, k_longest_note));
  body.resize(k_slot - k_body_at, '\0');
  return std::string(k_magic) + checksum(body) + "\n" + body;
}

std::optional<SpooledResult> parse_slot(std::string_view bytes) {
  if (bytes.size() != k_slot || bytes.substr(0, k_magic.size()) != k_magic ||
      bytes[k_body_at - 1] != '\n') {
    return std::nullopt;
  }
  const std::string_view body = bytes.substr(k_body_at);
  if (checksum(body) != bytes.substr(k_magic.size(), k_sum_size)) {
    return std::nullopt;
  }
  const auto fields = fields_of(body);
  const auto text = [&](std::string_view name) {
    const auto field = fields.find(name);
    return field == fields.end() ? std::string() : field->second;
  };
  SpooledResult spooled;
  const auto status = status_named(text("status"));
  if (!status || !read_number(fields, "serial", spooled.serial) ||
      !read_number(fields, "token", spooled.token.value)) {
    return std::nullopt;
  }
  spooled.ledger_id = text("ledger");
  spooled.run_id = text("run");
  spooled.ended_at = text("ended");
  core::AttemptResult& result = spooled.result;
  result.status = *status;
  result.never_started = text("never_started") == "1";
  if (result.never_started && result.status != core::RunStatus::failed) {
    return std::nullopt; // no oncerun says that of what it did not start
  }
  int number = 0;
  if (read_number(fields, "exit", number)) {
    result.exit_code = number;
  }
  if (read_number(fields, "signal", number)) {
    result.signal = number;
  }
  std::int64_t count = 0;
  if (read_number(fields, "user_us", count)) {
    result.usage.user = std::chrono::microseconds(count);
  }
  if (read_number(fields, "system_us", count)) {
    result.usage.system = std::chrono::microseconds(count);
  }
  (void)read_number(fields, "max_rss_kib", result.usage.max_rss_kib);
  result.note = text("note");
  return spooled;
}

void SpoolSlot::write(const SpooledResult& result) {
  write_slot(m_fd.get(), print_slot(result), m_offset, m_path);
  sync(m_fd.get(), m_path);
  if (!os::is_same_file(m_fd.get(), m_path)) {
    // What stands in a file without a name is read by nobody.
    throw core::Error(core::Outcome::unwritable,
                      m_path + " was removed or replaced while the run went on");
  }
}

SpoolSlot Spool::reserve(std::int64_t hint) const {
  bool created = false;
  os::make_directories(os::parent_of(m_path));
  os::UniqueFd fd = os::open_or_create(m_path, m_owner_of, &created);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    throw os::unwritable_error("look at", m_path, errno);
  }
  std::int64_t slots = info.st_size / k_slot_size;
  for (std::int64_t i = 0; i < slots; ++i) {
    const std::int64_t offset = (hint + i) % slots * k_slot_size;
    if (!os::try_lock_byte(fd.get(), offset, m_path)) {
      continue;
    }
    if (is_empty(read_at(fd.get(), offset, k_slot, m_path))) {
      return {std::move(fd), m_path, offset};
    }
    os::unlock_byte(fd.get(), offset);
  }
  // Written, not merely allocated: a later write into an unwritten extent may need a block of the
  // file system's own tables on a full disk.
  const std::int64_t offset = slots * k_slot_size;
  write_slot(fd.get(), std::string(static_cast<std::size_t>(k_block_slots * k_slot_size), '\0'),
             offset, m_path);
  sync(fd.get(), m_path);
  if (created) {
    if (const int error = os::sync_directory(os::parent_of(m_path)); error != 0) {
      throw os::unwritable_error("sync the folder of", m_path, error);
    }
  }
  if (!os::try_lock_byte(fd.get(), offset, m_path)) {
    throw core::Error(core::Outcome::unwritable, "no slot can be taken in " + m_path,
                      "see who locks it, or name another folder with --spool");
  }
  return {std::move(fd), m_path, offset};
}

std::vector<SpoolEntry> Spool::entries() const {
  std::vector<SpoolEntry> found;
  const os::UniqueFd fd(::open(m_path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT) {
      return found;
    }
    throw core::system_error(core::Outcome::unavailable, "read", m_path, errno);
  }
  constexpr std::size_t k_chunk = 16 * k_slot;
  for (std::int64_t at = 0;; at += static_cast<std::int64_t>(k_chunk)) {
    const std::string chunk = read_at(fd.get(), at, k_chunk, m_path);
    for (std::size_t slot = 0; slot + k_slot <= chunk.size(); slot += k_slot) {
      const std::string_view bytes = std::string_view(chunk).substr(slot, k_slot);
      if (!is_empty(bytes)) {
        found.push_back(
            {m_path, at + static_cast<std::int64_t>(slot), std::string(bytes), parse_slot(bytes)});
      }
    }
    if (chunk.size() < k_chunk) {
      return found;
    }
  }
}

void Spool::clear(const SpoolEntry& entry) {
  const os::UniqueFd fd(::open(entry.path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    throw os::unwritable_error("open", entry.path, errno);
  }
  if (read_at(fd.get(), entry.offset, k_slot, entry.path) == entry.bytes) {
    write_slot(fd.get(), std::string(k_slot, '\0'), entry.offset, entry.path);
  }
}

} // namespace oncerun::ledger
