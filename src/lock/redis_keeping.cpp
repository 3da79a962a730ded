#include "lock/redis_keeping.hpp"

#include "core/error.hpp"
#include "os/clock.hpp"
#include "os/process.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <functional>
#include <optional>
#include <random>
#include <string_view>

namespace oncerun::lock {

namespace {

using std::chrono::milliseconds;

/// Between two tries while somebody else holds the lock: doubled each time, with jitter, so that a
/// hundred who wait do not ask in step.
constexpr milliseconds k_first_pause{50};
constexpr milliseconds k_longest_pause{1'000};
/// While oncerun is stopped nothing is renewed; how often that is looked at.
constexpr milliseconds k_stopped_pause{100};

milliseconds number(const std::string& text) {
  std::int64_t value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value);
  return milliseconds(value);
}

Message failed(const std::string& what, const std::string& hint) {
  return {"failed", what, hint};
}

class Keeper {
 public:
  Keeper(const RedisOptions& options, pid_t oncerun, int socket, int lost, LeasePage& page)
      : m_options(options), m_session(options), m_oncerun(oncerun), m_socket(socket),
        m_lost_fd(lost), m_page(page) {}

  void run() {
    while (serve_or_renew()) {
    }
    if (m_doubtful) {
      give_back();
    }
    if (m_untold) {
      release_late();
    }
  }

 private:
  /// False at the end of the socket.
  bool serve_or_renew() {
    pollfd polled{m_socket, POLLIN, 0};
    const milliseconds limit = std::max(m_next_renewal - os::boot_time(), milliseconds(0));
    if (::poll(&polled, 1, m_held ? static_cast<int>(limit.count()) : -1) > 0) {
      const Message request = receive_message(m_socket);
      return !request.empty() && serve(request);
    }
    if (m_held && os::boot_time() >= m_next_renewal) {
      renew();
    }
    return true;
  }

  bool serve(const Message& request) {
    Message message;
    try {
      message = answer(request);
    } catch (const RedisUnreachable& error) {
      message =
          failed(error.what(), "see whether it runs; --lock-unavailable run starts without it");
    } catch (const core::Error& error) {
      message = failed(error.what(), error.hint());
    }
    if (message.empty()) {
      return true;
    }
    message.insert(message.begin(), request.front());
    if (!send_message(m_socket, message)) {
      return false;
    }
    // From here on oncerun may start something: what it does not give back itself ends by itself.
    m_doubtful = false;
    return true;
  }

  /// Without the request's number; empty where there is none.
  Message answer(const Message& request) {
    const std::string name = request.size() > 1 ? request[1] : "";
    if (name == "acquire" && request.size() == 7) {
      m_own_value = request[2];
      m_value = m_own_value;
      m_session.use({request[4], request[5], request[6]});
      return acquire(number(request[3]));
    }
    if (name == "begin" && request.size() == 5) {
      return begin(request[2], request[3], number(request[4]).count());
    }
    if (name == "release" && request.size() == 5) {
      return release(request[2], request[3], request[4]);
    }
    if (name == "holder" && request.size() == 3) {
      m_session.use({request[2], "", ""});
      const std::optional<std::string> holder = m_session.holder();
      return holder ? Message{"holder", *holder} : Message{"holder"};
    }
    if (name == "forget") {
      give_back();
      return {};
    }
    return failed("a request that is not understood", "");
  }

  Message acquire(milliseconds wait) {
    const os::Deadline deadline = os::Deadline::after(wait);
    milliseconds pause = k_first_pause;
    while (true) {
      milliseconds free_in{0};
      try {
        if (const std::optional<Message> end = try_to_acquire(deadline, free_in)) {
          return *end;
        }
      } catch (const RedisUnreachable&) {
        if (deadline.passed()) {
          give_back();
          throw;
        }
      } catch (const core::Error&) {
        give_back(); // a script that fails half-way has done the first half
        throw;
      }
      pause_for(std::max(free_in, jittered(pause)), deadline);
      if (is_alone()) {
        return failed("given up", "");
      }
      pause = std::min(pause * 2, k_longest_pause);
    }
  }

  /// None: to be tried again, at the earliest after `free_in`.
  std::optional<Message> try_to_acquire(const os::Deadline& deadline, milliseconds& free_in) {
    m_doubtful = true;
    const RedisAttempt attempt = m_session.acquire(m_value);
    if (const auto* acquired = std::get_if<RedisAcquired>(&attempt)) {
      begin_to_keep(acquired->sent);
      return Message{"acquired", acquired->mark, std::to_string(acquired->token)};
    }
    m_doubtful = false;
    if (const auto* held = std::get_if<RedisHeld>(&attempt)) {
      return deadline.passed() ? std::optional(Message{"held", held->value}) : std::nullopt;
    }
    // A release has been sent for this value: were its execution late, it would end a lock of ours.
    m_value = m_own_value + " try=" + std::to_string(++m_tries);
    free_in = std::get<RedisTooYoung>(attempt).left;
    if (deadline.left() >= free_in) {
      return std::nullopt;
    }
    return failed("the Redis server has been up for less than --lock-ttl and may have forgotten a "
                  "lock",
                  "start again in " + std::to_string(free_in.count() / 1000 + 1) +
                      " s, or wait for that with --wait");
  }

  /// Asks again while there is time: a connection may have been closed since it was last used.
  template<typename Request>
  auto insist(const Request& request) {
    const os::Deadline deadline = os::Deadline::after(m_options.connect_timeout);
    while (true) {
      try {
        return request();
      } catch (const RedisUnreachable&) {
        if (deadline.passed() || is_alone()) {
          throw;
        }
        pause_for(k_first_pause, deadline);
      }
    }
  }

  void begin_to_keep(milliseconds sent) {
    m_held = true;
    m_page.held_until.store((sent + m_options.ttl).count());
    m_next_renewal = sent + (m_options.renew ? m_options.ttl / 3 : m_options.ttl);
  }

  Message begin(const std::string& seen, const std::string& mark, std::int64_t token) {
    milliseconds sent{0};
    const auto begun =
        m_held ? insist([&] { return m_session.begin(m_value, seen, mark, token, sent); })
               : RedisSession::Begun::not_ours;
    switch (begun) {
    case RedisSession::Begun::yes:
      if (m_options.renew) {
        begin_to_keep(sent);
      }
      return {"begun"};
    case RedisSession::Begun::mark_changed:
      return {"changed"};
    case RedisSession::Begun::not_ours:
      break;
    }
    lose();
    return {"lost"};
  }

  Message release(const std::string& mark, const std::string& prefix, const std::string& older) {
    m_held = false;
    m_untold = [=, this] { return m_session.release(m_value, mark, prefix, older); };
    const bool ours = insist(m_untold);
    m_untold = nullptr;
    return {ours ? "released" : "lost"};
  }

  /// A release that oncerun has not waited for: other hosts would ask about a run that is done.
  void release_late() noexcept {
    const milliseconds end = os::boot_time() + m_options.ttl;
    while (os::boot_time() < end) {
      try {
        (void)m_untold();
        return;
      } catch (const RedisUnreachable&) {
        (void)::poll(nullptr, 0, static_cast<int>(k_longest_pause.count()));
      } catch (const std::exception&) {
        return;
      }
    }
  }

  /// What was asked for without an answer may have been done: once more, the other way round. Where
  /// that does not help either, the lock ends by itself.
  void give_back() noexcept {
    m_doubtful = false;
    m_held = false;
    try {
      (void)m_session.release(m_value, std::string(k_leave_mark), "", "");
    } catch (const std::exception&) {
      // The lock has an end of its own.
    }
  }

  void renew() {
    const milliseconds now = os::boot_time();
    const milliseconds held_until{m_page.held_until.load()};
    if (now >= held_until) {
      lose();
      return;
    }
    const auto owner = os::find_process(m_oncerun);
    if (!owner || owner->state == 'T') {
      m_next_renewal = now + k_stopped_pause;
      return;
    }
    try {
      const std::optional<milliseconds> sent = m_session.renew(m_value);
      if (!sent) {
        lose();
        return;
      }
      m_retry_pause = k_first_pause;
      begin_to_keep(*sent);
    } catch (const std::exception&) {
      m_next_renewal = std::min(os::boot_time() + jittered(m_retry_pause), held_until);
      m_retry_pause = std::min(m_retry_pause * 2, k_longest_pause);
    }
  }

  void lose() noexcept {
    m_held = false;
    const char byte = 0;
    (void)::write(m_lost_fd, &byte, 1);
  }

  /// Whether oncerun has gone or closed the socket.
  [[nodiscard]] bool is_alone() const noexcept {
    pollfd polled{m_socket, 0, 0};
    return ::poll(&polled, 1, 0) > 0 && (polled.revents & (POLLHUP | POLLERR)) != 0;
  }

  /// Ends early when oncerun goes.
  void pause_for(milliseconds pause, const os::Deadline& deadline) const noexcept {
    pollfd polled{m_socket, 0, 0};
    (void)::poll(&polled, 1, static_cast<int>(std::min(pause, deadline.left()).count()));
  }

  [[nodiscard]] milliseconds jittered(milliseconds pause) {
    std::uniform_int_distribution<std::int64_t> distribution(pause.count() / 2, pause.count());
    return milliseconds(distribution(m_random));
  }

  const RedisOptions& m_options;
  RedisSession m_session;
  pid_t m_oncerun;
  int m_socket;
  int m_lost_fd;
  LeasePage& m_page;
  std::string m_own_value; ///< as oncerun made it
  std::string m_value;     ///< as it was asked for
  int m_tries = 1;
  std::function<bool()> m_untold; ///< a release that has not been answered yet
  bool m_held = false;
  bool m_doubtful = false; ///< a request of ours may have taken it, and nobody knows
  milliseconds m_next_renewal{0};
  milliseconds m_retry_pause = k_first_pause;
  std::minstd_rand m_random{std::random_device{}()};
};

} // namespace

bool send_message(int socket, const Message& message) noexcept {
  try {
    std::string text;
    for (const std::string& line : message) {
      text += line;
      std::replace(text.end() - static_cast<std::ptrdiff_t>(line.size()), text.end(), '\n', ' ');
      text += '\n';
    }
    ssize_t sent = 0;
    do {
      sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == static_cast<ssize_t>(text.size());
  } catch (const std::bad_alloc&) {
    return false;
  }
}

Message receive_message(int socket) {
  std::array<char, 16384> buffer{};
  ssize_t size = 0;
  do {
    size = ::recv(socket, buffer.data(), buffer.size(), 0);
  } while (size < 0 && errno == EINTR);
  Message message;
  std::string_view rest(buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    message.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return message;
}

void keep_lease(const RedisOptions& options, pid_t oncerun, int socket, int lost, LeasePage& page) {
  Keeper(options, oncerun, socket, lost, page).run();
}

} // namespace oncerun::lock
