#include "ledger/sqlite_files.hpp"

#include "core/error.hpp"
#include "ledger/file_calls.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace oncerun::ledger {

namespace {

bool g_looking = false;

sqlite3_vfs* g_base = nullptr;
sqlite3_vfs g_vfs{};
/// SQLite's methods for a database file and for a log, with xSync and xShmMap replaced.
struct Methods {
  const sqlite3_io_methods* base = nullptr;
  sqlite3_io_methods ours{};
};
Methods g_database;
Methods g_log;

/// Fills the pages of the shared memory at once: on a full disk a later touch of a page that has no
/// block would end the process by SIGBUS; here it is an error that SQLite can report.
int map_shared_memory(sqlite3_file* file, int region, int size, int extend,
                      void volatile** memory) {
  const int code = g_database.base->xShmMap(file, region, size, extend, memory);
  if (code != SQLITE_OK || *memory == nullptr) {
    return code;
  }
  void* begin = const_cast<void*>(*memory);
  int error = 0;
  do {
    error = ::madvise(begin, static_cast<std::size_t>(size), MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  } while (error == EINTR || error == EAGAIN);
  // EINVAL: a kernel before 5.14. ENOMEM is about memory, the others about the file's blocks.
  if (error == 0 || error == EINVAL) {
    return SQLITE_OK;
  }
  *memory = nullptr;
  return error == ENOMEM ? SQLITE_NOMEM : SQLITE_FULL;
}

/// Again when a signal interrupted it, which SQLite takes for a failure of the disk.
template<const Methods& methods>
int sync_file(sqlite3_file* file, int flags) {
  int code = SQLITE_OK;
  int error = 0;
  do {
    error = 0;
    code = methods.base->xSync(file, flags);
    if (code != SQLITE_OK) {
      methods.base->xFileControl(file, SQLITE_FCNTL_LAST_ERRNO, &error);
    }
  } while (code != SQLITE_OK && error == EINTR);
  note_fault(error);
  return code;
}

template<Methods& methods>
void replace_methods(sqlite3_file* file) {
  if (file->pMethods == nullptr) {
    return;
  }
  if (methods.base == nullptr) {
    methods.base = file->pMethods;
    methods.ours = *file->pMethods;
    methods.ours.xSync = sync_file<methods>;
  }
  if (file->pMethods == methods.base) {
    file->pMethods = &methods.ours;
  }
}

int pause(sqlite3_vfs* vfs, int microseconds) {
  constexpr int k_longest_us = 100;
  return g_base->xSleep(vfs, g_looking ? std::min(microseconds, k_longest_us) : microseconds);
}

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  int code = SQLITE_CANTOPEN;
  if ((flags & SQLITE_OPEN_WAL) != 0) {
    // With CREATE, SQLite would sync the folder at the first commit of each connection. The WAL is
    // kept, so that it is there but for the first time.
    int got = 0;
    code = g_base->xOpen(&g_vfs, name, file, flags & ~SQLITE_OPEN_CREATE, &got);
    if (out_flags != nullptr) {
      *out_flags = got;
    }
    // Missing when SQLite tried to open it for writing and there when it then tried for reading:
    // somebody made it in between. A log that is open for reading makes the ledger read-only.
    if (code == SQLITE_OK && (flags & SQLITE_OPEN_READWRITE) != 0 &&
        (got & SQLITE_OPEN_READONLY) != 0) {
      (void)file->pMethods->xClose(file);
      code = SQLITE_CANTOPEN;
    }
  }
  if ((code & 0xFF) == SQLITE_CANTOPEN) {
    code = g_base->xOpen(&g_vfs, name, file, flags, out_flags);
  }
  if (code == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB) != 0) {
    replace_methods<g_database>(file);
    g_database.ours.xShmMap = map_shared_memory;
  } else if (code == SQLITE_OK) {
    replace_methods<g_log>(file);
  }
  return code;
}

template<typename Call>
void replace_call(const char* name, Call* call) {
  g_base->xSetSystemCall(g_base, name, reinterpret_cast<sqlite3_syscall_ptr>(call));
}

} // namespace

Looking::Looking(bool passive) noexcept {
  g_looking = passive;
}

Looking::~Looking() {
  g_looking = false;
}

void initialise_library() {
  static bool s_done = false;
  if (s_done) {
    return;
  }
  // No page cache made in advance; a run touches a few dozen pages.
  sqlite3_config(SQLITE_CONFIG_PAGECACHE, nullptr, 0, 0);
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  sqlite3_initialize();
  g_base = sqlite3_vfs_find(nullptr);
  if (g_base == nullptr) {
    throw core::Error(core::Outcome::internal, "SQLite has no file system layer");
  }
  g_vfs = *g_base;
  g_vfs.zName = k_vfs_name;
  g_vfs.pNext = nullptr;
  g_vfs.xOpen = open_file;
  g_vfs.xSleep = pause;
  sqlite3_vfs_register(&g_vfs, 0);
  if (g_base->iVersion >= 3 && g_base->xSetSystemCall != nullptr) {
    replace_call("open", open_call);
    replace_call("fchown", chown_call);
    replace_call("fcntl", control_call);
    replace_call("ftruncate", truncate_call);
    replace_call("fstat", stat_call);
    // Which of the two SQLite uses depends on how it was built.
    replace_call("pread", read_call);
    replace_call("pread64", read_call);
    replace_call("pwrite", write_call);
    replace_call("pwrite64", write_call);
  }
  s_done = true;
}

} // namespace oncerun::ledger
