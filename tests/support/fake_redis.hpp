#pragma once

// A server that speaks Redis's protocol (RESP2) and says what the test wants it to say: for answers
// that a real one cannot be brought to give.

#include "os/fd.hpp"
#include "support/scratch.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace oncerun::test {

using RedisWords = std::vector<std::string>;

inline std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}
inline std::string integer(long long number) {
  return ":" + std::to_string(number) + "\r\n";
}
inline std::string error(const std::string& text) {
  return "-" + text + "\r\n";
}
inline std::string array(const std::vector<std::string>& elements) {
  std::string text = "*" + std::to_string(elements.size()) + "\r\n";
  for (const std::string& element : elements) {
    text += element;
  }
  return text;
}

/// One connection at a time, on a Unix socket in the folder. `answer` is called in a process of its
/// own; where it says nothing the connection is closed.
class FakeRedis {
 public:
  using Answer = std::function<std::optional<std::string>(const RedisWords& command)>;

  FakeRedis(const Scratch& folder, const std::string& name, Answer answer)
      : m_path(folder / name), m_log(folder / (name + ".log")), m_listener(listen_on(m_path)),
        m_process([this, answer = std::move(answer)] { return serve(answer); }) {
    m_listener.reset(); // the server's alone: when it is gone connecting fails
  }

  [[nodiscard]] const std::string& path() const noexcept { return m_path; }
  /// The first word of each command so far, "CONNECT" for each connection.
  [[nodiscard]] std::vector<std::string> heard() const {
    std::vector<std::string> lines;
    std::ifstream file(m_log);
    for (std::string line; std::getline(file, line);) {
      lines.push_back(line);
    }
    return lines;
  }
  [[nodiscard]] long count(const std::string& word) const {
    const std::vector<std::string> lines = heard();
    return std::count(lines.begin(), lines.end(), word);
  }

 private:
  static os::UniqueFd listen_on(const std::string& path) {
    os::UniqueFd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener.get(), 16) != 0) {
      throw std::runtime_error("cannot listen on " + path);
    }
    return listener;
  }

  void log(const std::string& word) const { std::ofstream(m_log, std::ios::app) << word << '\n'; }

  int serve(const Answer& answer) const {
    while (true) {
      const os::UniqueFd connection(accept4(m_listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      log("CONNECT");
      std::string input;
      while (const auto command = next(connection.get(), input)) {
        log(command->front());
        const auto text = answer(*command);
        if (!text || send(connection.get(), text->data(), text->size(), MSG_NOSIGNAL) < 0) {
          break;
        }
      }
    }
  }

  /// "*2\r\n$3\r\nGET\r\n$1\r\nx\r\n"; none at the end of the connection.
  static std::optional<RedisWords> next(int connection, std::string& input) {
    RedisWords words;
    const auto count = number(connection, input, '*');
    for (long i = 0; count && i < *count; ++i) {
      const auto size = number(connection, input, '$');
      if (!size || !fill(connection, input, static_cast<std::size_t>(*size) + 2)) {
        return std::nullopt;
      }
      words.push_back(input.substr(0, static_cast<std::size_t>(*size)));
      input.erase(0, static_cast<std::size_t>(*size) + 2);
    }
    return words.empty() ? std::nullopt : std::optional(words);
  }

  static std::optional<long> number(int connection, std::string& input, char kind) {
    while (input.find("\r\n") == std::string::npos) {
      if (!fill(connection, input, input.size() + 1)) {
        return std::nullopt;
      }
    }
    const auto end = input.find("\r\n");
    if (input[0] != kind) {
      return std::nullopt;
    }
    const long value = std::stol(input.substr(1, end - 1));
    input.erase(0, end + 2);
    return value;
  }

  static bool fill(int connection, std::string& input, std::size_t size) {
    char buffer[4096];
    while (input.size() < size) {
      const ssize_t got = read(connection, buffer, sizeof buffer);
      if (got <= 0) {
        return false;
      }
      input.append(buffer, static_cast<std::size_t>(got));
    }
    return true;
  }

  std::string m_path;
  std::string m_log;
  os::UniqueFd m_listener;
  Forked m_process;
};

} // namespace oncerun::test
