#include "os/process.hpp"

#include "core/error.hpp"
#include "os/fd.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <unordered_map>

namespace oncerun::os {

namespace {

/// An environment cannot be larger: execve(2) allows at most three quarters of 8 MiB.
constexpr std::size_t k_most_bytes = 8U << 20;

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

/// What went wrong in a look at /proc, the first of it. That a process is gone or is somebody
/// else's is no trouble; that nothing can be opened is, since then nobody seems to be there.
struct Trouble {
  int error = 0;
  std::string path;

  void note(int code, std::string_view where) {
    const bool expected = code == ENOENT || code == ESRCH || code == EACCES || code == EPERM;
    if (error == 0 && !expected) {
      error = code;
      path = where;
    }
  }
};

/// `path` is relative to the folder `at`.
Directory open_directory(int at, const char* path, Trouble& trouble) {
  UniqueFd fd(::openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  Directory directory(fd ? ::fdopendir(fd.get()) : nullptr);
  if (directory) {
    static_cast<void>(fd.release()); // closedir(3) closes it
  } else {
    trouble.note(errno, path);
  }
  return directory;
}

template<typename Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// The next word of `text`, which loses it and the blanks before it.
std::string_view next_word(std::string_view& text) {
  constexpr std::string_view k_blanks = " \t\n";
  text.remove_prefix(std::min(text.find_first_not_of(k_blanks), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(k_blanks));
  text.remove_prefix(word.size());
  return word;
}

/// Calls `visit(number, name)` for each entry of the folder whose name is a number.
template<typename Visit>
void for_each_number(DIR* directory, Trouble& trouble, const Visit& visit) {
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(directory);
    if (entry == nullptr) {
      if (errno != 0) {
        trouble.note(errno, "a folder of processes");
      }
      return;
    }
    int number = 0;
    if (parse_number(std::string_view(entry->d_name), number)) {
      visit(number, std::string(entry->d_name));
    }
  }
}

/// Reads a file whole into `buffer`, whose memory is used again and again; false if that fails.
bool read_whole(int at, const std::string& path, std::string& buffer, Trouble& trouble) {
  buffer.clear();
  const UniqueFd fd(::openat(at, path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd) {
    trouble.note(errno, path);
    return false;
  }
  std::array<char, 16384> chunk;
  while (buffer.size() < k_most_bytes) {
    const ssize_t count = ::read(fd.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      trouble.note(errno, path);
    }
    if (count <= 0) {
      return count == 0;
    }
    buffer.append(chunk.data(), static_cast<std::size_t>(count));
  }
  return true;
}

/// Whether `block`, entries that end in NUL, has `entry`. A program may have overwritten the last
/// NUL (setproctitle), so that the end of the block ends an entry, too.
bool has_entry(std::string_view block, std::string_view entry) {
  for (std::size_t at = block.find(entry); at != std::string_view::npos && !entry.empty();
       at = block.find(entry, at + 1)) {
    const std::size_t end = at + entry.size();
    if ((at == 0 || block[at - 1] == '\0') && (end == block.size() || block[end] == '\0')) {
      return true;
    }
  }
  return false;
}

/// The threads' folders below /proc/PID, for a process whose main thread has ended: /proc/PID then
/// shows no files and no memory although the other threads run on (pthread_exit(3) in main).
std::vector<std::string> threads_of(int proc, const std::string& pid, Trouble& trouble) {
  std::vector<std::string> folders;
  const std::string path = pid + "/task";
  if (const Directory tasks = open_directory(proc, path.c_str(), trouble)) {
    for_each_number(tasks.get(), trouble, [&](int, const std::string& name) {
      if (name != pid) {
        folders.push_back(path + "/" + name);
      }
    });
  }
  return folders;
}

bool environment_has(int proc, const std::string& pid, std::string_view entry, std::string& buffer,
                     Trouble& trouble) {
  if (read_whole(proc, pid + "/environ", buffer, trouble) && !buffer.empty()) {
    return has_entry(buffer, entry);
  }
  for (const std::string& thread : threads_of(proc, pid, trouble)) {
    if (read_whole(proc, thread + "/environ", buffer, trouble) && !buffer.empty()) {
      return has_entry(buffer, entry);
    }
  }
  return false;
}

/// Whether an fdinfo text has an open file description lock that covers `offset`. The lines read
/// "lock:\t1: OFDLCK ADVISORY  WRITE -1 fd:01:1234 START END", END being a number or EOF.
bool locks_byte(std::string_view text, long long offset) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (next_word(line) != "lock:") {
      continue;
    }
    static_cast<void>(next_word(line)); // its ordinal
    if (next_word(line) != "OFDLCK") {
      continue;
    }
    for (int passed = 0; passed < 4; ++passed) { // ADVISORY, WRITE, pid, file
      static_cast<void>(next_word(line));
    }
    long long start = 0;
    long long end = 0;
    const bool starts = parse_number(next_word(line), start) && start <= offset;
    const std::string_view last = next_word(line);
    if (starts && (last == "EOF" || (parse_number(last, end) && offset <= end))) {
      return true;
    }
  }
  return false;
}

/// A file and a byte of it that a descriptor may hold.
struct Byte {
  dev_t device;
  ino_t inode;
  long long offset;
};

enum class Holds { no_descriptors, no, yes };

/// Whether a descriptor in `folder`/fd holds the byte. fdinfo is asked first and the file itself
/// only then: a stat of each descriptor could hang on a dead network file system, and the device
/// in fdinfo is not the one that stat shows on btrfs and overlayfs.
Holds folder_holds(int proc, const std::string& folder, const Byte& byte, std::string& buffer,
                   Trouble& trouble) {
  const Directory fds = open_directory(proc, (folder + "/fd").c_str(), trouble);
  Holds holds = Holds::no_descriptors;
  if (!fds) {
    return holds;
  }
  for_each_number(fds.get(), trouble, [&](int, const std::string& name) {
    char first = '\0';
    holds = holds == Holds::yes ? Holds::yes : Holds::no;
    // Only what has a path can be a file: the cheap way to pass over sockets and pipes.
    if (holds == Holds::yes || ::readlinkat(::dirfd(fds.get()), name.c_str(), &first, 1) != 1 ||
        first != '/' || !read_whole(proc, folder + "/fdinfo/" + name, buffer, trouble) ||
        !locks_byte(buffer, byte.offset)) {
      return;
    }
    struct stat status {};
    if (::fstatat(::dirfd(fds.get()), name.c_str(), &status, 0) == 0 &&
        status.st_dev == byte.device && status.st_ino == byte.inode) {
      holds = Holds::yes;
    }
  });
  return holds;
}

/// Every pid of /proc but our own for which `matches(proc, name, trouble)` says so. Throws if it
/// found nobody in a walk that was not whole.
template<typename Matches>
std::vector<pid_t> matching_processes(const Matches& matches) {
  std::vector<pid_t> pids;
  Trouble trouble;
  if (const Directory proc = open_directory(AT_FDCWD, "/proc", trouble)) {
    const pid_t self = ::getpid();
    for_each_number(proc.get(), trouble, [&](pid_t pid, const std::string& name) {
      if (pid != self && matches(::dirfd(proc.get()), name, trouble)) {
        pids.push_back(pid);
      }
    });
  }
  if (pids.empty() && trouble.error != 0) {
    throw core::system_error(core::Outcome::unavailable, "look at the processes in",
                             trouble.path == "/proc" ? trouble.path : "/proc: " + trouble.path,
                             trouble.error);
  }
  return pids;
}

} // namespace

std::optional<Process> parse_stat(std::string_view line) {
  Process process;
  const std::size_t open = line.find(" (");
  const std::size_t close = line.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open ||
      !parse_number(line.substr(0, open), process.pid)) {
    return std::nullopt;
  }
  std::string_view rest = line.substr(close + 1);
  const std::string_view state = next_word(rest); // field 3
  if (state.size() != 1 || !parse_number(next_word(rest), process.parent)) {
    return std::nullopt;
  }
  process.state = state.front();
  for (int field = 5; field < 22; ++field) {
    static_cast<void>(next_word(rest));
  }
  if (!parse_number(next_word(rest), process.start_ticks)) {
    return std::nullopt;
  }
  return process;
}

std::optional<Process> find_process(pid_t pid) {
  std::string text;
  Trouble ignored;
  if (!read_whole(AT_FDCWD, "/proc/" + std::to_string(pid) + "/stat", text, ignored)) {
    return std::nullopt;
  }
  return parse_stat(text);
}

std::optional<std::vector<pid_t>> own_children() {
  std::string text;
  Trouble ignored;
  if (!read_whole(AT_FDCWD, "/proc/thread-self/children", text, ignored)) {
    return std::nullopt;
  }
  std::vector<pid_t> children;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto end = rest.find(' ');
    pid_t pid = 0;
    if (parse_number(rest.substr(0, end), pid)) {
      children.push_back(pid);
    }
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return children;
}

std::vector<Process> list_processes(int* error) {
  std::vector<Process> processes;
  std::string text;
  Trouble trouble;
  const Directory proc = open_directory(AT_FDCWD, "/proc", trouble);
  if (proc) {
    for_each_number(proc.get(), trouble, [&](int, const std::string& name) {
      if (read_whole(::dirfd(proc.get()), name + "/stat", text, trouble)) {
        if (const auto process = parse_stat(text)) {
          processes.push_back(*process);
        }
      }
    });
  }
  if (error != nullptr && (!proc || trouble.error != 0)) {
    *error = trouble.error != 0 ? trouble.error : ENOENT;
  }
  return processes;
}

std::vector<Process> descendants(pid_t root) {
  return descendants(root, list_processes());
}

std::vector<Process> descendants(pid_t root, const std::vector<Process>& all) {
  std::unordered_multimap<pid_t, const Process*> children;
  children.reserve(all.size());
  for (const Process& process : all) {
    children.emplace(process.parent, &process);
  }
  std::vector<Process> found;
  std::vector<pid_t> parents{root};
  // A list is no snapshot: with pids used again while it was taken it could hold a circle, which
  // the removal of what was visited cuts.
  while (!parents.empty()) {
    const pid_t parent = parents.back();
    parents.pop_back();
    const auto [begin, end] = children.equal_range(parent);
    for (auto child = begin; child != end; ++child) {
      if (child->second->pid != root) {
        found.push_back(*child->second);
        parents.push_back(child->second->pid);
      }
    }
    children.erase(begin, end);
  }
  return found;
}

std::vector<pid_t> processes_with_environment(std::string_view entry) {
  std::string buffer;
  return matching_processes([&](int proc, const std::string& pid, Trouble& trouble) {
    return environment_has(proc, pid, entry, buffer, trouble);
  });
}

bool has_environment(pid_t pid, std::string_view entry, int* error) {
  std::string buffer;
  Trouble trouble;
  const bool found =
      environment_has(AT_FDCWD, "/proc/" + std::to_string(pid), entry, buffer, trouble);
  if (error != nullptr && trouble.error != 0) {
    *error = trouble.error;
  }
  return found;
}

std::vector<pid_t> processes_holding_byte(dev_t device, ino_t inode, long long offset) {
  std::string buffer;
  const Byte byte{device, inode, offset};
  return matching_processes([&](int proc, const std::string& pid, Trouble& trouble) {
    const Holds holds = folder_holds(proc, pid, byte, buffer, trouble);
    if (holds != Holds::no_descriptors) {
      return holds == Holds::yes;
    }
    const auto threads = threads_of(proc, pid, trouble);
    return std::any_of(threads.begin(), threads.end(), [&](const std::string& thread) {
      return folder_holds(proc, thread, byte, buffer, trouble) == Holds::yes;
    });
  });
}

unsigned long long pid_namespace_of(pid_t pid) {
  struct stat status {};
  const std::string path = "/proc/" + std::to_string(pid) + "/ns/pid";
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

std::string process_label(pid_t pid) {
  std::string name;
  Trouble ignored;
  const bool found = read_whole(AT_FDCWD, "/proc/" + std::to_string(pid) + "/comm", name, ignored);
  if (!found || name.empty()) {
    return "pid " + std::to_string(pid);
  }
  name.pop_back(); // the newline that the kernel adds
  for (char& letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte == 0x7f) {
      letter = '?';
    }
  }
  return name + " (pid " + std::to_string(pid) + ")";
}

} // namespace oncerun::os
