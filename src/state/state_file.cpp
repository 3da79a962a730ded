#include "state/state_file.hpp"

#include "core/error.hpp"
#include "os/clock.hpp"
#include "os/file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace oncerun::state {

namespace {

constexpr std::size_t k_room = 8192;
constexpr int k_max_names = 100;

std::optional<std::string> read_text(const std::string& path) try {
  return os::read_file(path);
} catch (const core::Error& error) {
  if (error.outcome() != core::Outcome::unavailable) {
    throw;
  }
  // Whoever may not read it cannot keep it either.
  const std::string owner = os::ownership(path);
  throw core::Error(core::Outcome::unwritable,
                    error.what() + (owner.empty() ? owner : " (" + owner + ")"),
                    "run as its owner, or give the file to the user that runs the job");
}

/// What is readable as a document and still tells nothing to rely on; empty if all is well.
std::string contradiction(const core::StateDocument& document, const IsValidDate& is_valid_date) {
  const std::pair<const char*, const std::optional<core::BizDate>&> dates[] = {
      {"lastPublishedDate", document.last_published},
      {"pendingDate", document.pending_date},
      {"skippedDate", document.skipped_date},
  };
  for (const auto& [name, date] : dates) {
    if (date && is_valid_date && !is_valid_date(*date)) {
      return std::string(name) + " \"" + date->label() + "\" is no date of this job that has begun";
    }
  }
  const bool says_nothing = document.status == core::StateDocument::Status::none &&
                            !document.last_published && document.job.empty();
  return says_nothing ? "it has none of lastPublishedDate, status and pendingDate" : "";
}

void refuse_foreign(const std::string& path, const char* what, const std::string& found,
                    const std::string& wanted) {
  if (!found.empty() && !wanted.empty() && found != wanted) {
    throw core::Error(
        core::Outcome::config,
        path + " is the state file of " + what + " " + found + ", not of " + wanted,
        std::string_view(what) == "job"
            ? "give each job a state file of its own"
            : "after a change of the period move the file away: a new one is written");
  }
}

bool is_older(const std::optional<core::BizDate>& left, const std::optional<core::BizDate>& right) {
  return right && (!left || *left < *right);
}

} // namespace

Reading read_state(const std::string& path, const std::string& job, const std::string& every,
                   const IsValidDate& is_valid_date) {
  const std::optional<std::string> text = read_text(path);
  if (!text) {
    return Absent{};
  }
  core::StateDocument document;
  try {
    document = core::parse_state(*text);
  } catch (const core::StateDocumentError& error) {
    return Unreadable{error.what()};
  }
  refuse_foreign(path, "job", document.job, job);
  refuse_foreign(path, "the period", document.every, every);
  if (std::string why = contradiction(document, is_valid_date); !why.empty()) {
    return Unreadable{std::move(why)};
  }
  if (document.status == core::StateDocument::Status::done) {
    document.pending_date.reset();
  }
  return document;
}

std::string keep_aside(const std::string& path) {
  const std::string target = os::real_path(path);
  // "2026-10-26T18:00:00.123Z" without what is awkward in a file's name.
  std::string stamp = os::now_text();
  std::erase_if(stamp, [](char c) { return c == '-' || c == ':'; });
  const std::string name = target + ".broken-" + stamp;
  for (int tries = 1; tries <= k_max_names; ++tries) {
    const std::string aside = tries == 1 ? name : name + "-" + std::to_string(tries);
    if (::link(target.c_str(), aside.c_str()) == 0) {
      return aside;
    }
    if (errno == EEXIST) {
      continue;
    }
    // No hard links here, or not of another user's file (fs.protected_hardlinks): a copy, then.
    const int error = errno;
    struct stat info {};
    if (::lstat(aside.c_str(), &info) == 0) {
      continue;
    }
    const std::optional<std::string> content = read_text(target);
    if (!content) {
      throw os::unwritable_error("keep aside", target, error);
    }
    os::AtomicFile(aside, content->size()).commit(*content);
    return aside;
  }
  throw os::unwritable_error("keep aside", target, EEXIST);
}

std::size_t room_for(const core::StateDocument& document) {
  return k_room + document.unknown_keys.size();
}

Projection::Projection(std::string path, std::string job, std::string every,
                       IsValidDate is_valid_date)
    : m_path(std::move(path)), m_job(std::move(job)), m_every(std::move(every)),
      m_is_valid_date(std::move(is_valid_date)) {
}

void Projection::reserve() {
  const Reading present = read_state(m_path, m_job, m_every, m_is_valid_date);
  const auto* document = std::get_if<core::StateDocument>(&present);
  m_reserved.reset();
  m_reserved.emplace(m_path, room_for(document != nullptr ? *document : core::StateDocument{}));
}

std::optional<std::string> Projection::write(const core::StateDocument& projected) {
  core::StateDocument document = projected;
  std::optional<std::string> aside;
  const Reading present = read_state(m_path, m_job, m_every, m_is_valid_date);
  if (const auto* found = std::get_if<core::StateDocument>(&present)) {
    document.unknown_keys = found->unknown_keys;
    if (is_older(document.last_published, found->last_published)) {
      document.last_published = found->last_published;
    }
  } else if (std::holds_alternative<Unreadable>(present)) {
    aside = keep_aside(m_path);
  }
  if (!m_reserved) {
    m_reserved.emplace(m_path);
  }
  // What was reserved is used up, also by a write that fails.
  os::AtomicFile file = std::move(*m_reserved);
  m_reserved.reset();
  file.commit(core::print_state(document));
  return aside;
}

} // namespace oncerun::state
