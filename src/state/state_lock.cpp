#include "state/state_lock.hpp"

#include "os/clock.hpp"
#include "os/file.hpp"
#include "os/life_bytes.hpp"

#include <fcntl.h>

#include <utility>

namespace oncerun::state {

namespace {

class StateLock final : public core::Lock {
 public:
  explicit StateLock(std::shared_ptr<StatePlace> place) : m_place(std::move(place)) {}

  [[nodiscard]] std::unique_ptr<core::HeldLock> acquire(const core::RunKey& /*run*/,
                                                        std::chrono::milliseconds wait,
                                                        const core::StopRequest& stop) override {
    return take_state_lock(m_place, wait, stop);
  }

  [[nodiscard]] bool is_held() override {
    const os::UniqueFd fd(::open(m_place->lock_path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    return fd && os::is_marked_held(fd.get(), m_place->lock_path);
  }

  [[nodiscard]] std::optional<core::LockNote> holder() override {
    if (!is_held()) {
      return std::nullopt;
    }
    const Reading reading = read_state(m_place->path, "", "", {});
    const auto* document = std::get_if<core::StateDocument>(&reading);
    if (document == nullptr || !document->pending_date || document->end_recorded) {
      return std::nullopt;
    }
    return core::LockNote{.job = document->job,
                          .date = document->pending_date->label(),
                          .host = document->host,
                          .since = document->started_at,
                          .machine_id = document->machine_id,
                          .boot_id = document->boot_id,
                          .pid_namespace = document->pid_namespace,
                          .pid = static_cast<pid_t>(document->pid)};
  }

  [[nodiscard]] std::string describe() const override { return "flock " + m_place->lock_path; }

 private:
  std::shared_ptr<StatePlace> m_place;
};

} // namespace

HeldStateLock::HeldStateLock(os::UniqueFd fd, std::shared_ptr<StatePlace> place)
    : os::HeldFlock(std::move(fd), place->lock_path, true), m_place(std::move(place)) {
  m_place->locked = true;
}

HeldStateLock::~HeldStateLock() {
  HeldStateLock::release();
}

void HeldStateLock::release() noexcept {
  if (inherited_fd() >= 0) {
    m_place->locked = false;
  }
  os::HeldFlock::release();
}

std::unique_ptr<core::HeldLock> take_state_lock(std::shared_ptr<StatePlace> place,
                                                std::chrono::milliseconds wait,
                                                const core::StopRequest& stop) {
  const auto open = [&place] {
    // First as what it also is, so that a new file has its id before anybody judges by it.
    (void)os::LifeFile::open(place->lock_path, place->path);
    return os::open_or_create(place->lock_path, place->path);
  };
  os::UniqueFd fd = os::lock_path(place->lock_path, open, os::Deadline::after(wait), stop);
  return fd ? std::make_unique<HeldStateLock>(std::move(fd), std::move(place)) : nullptr;
}

std::unique_ptr<core::Lock> make_state_lock(std::shared_ptr<StatePlace> place) {
  return std::make_unique<StateLock>(std::move(place));
}

} // namespace oncerun::state
