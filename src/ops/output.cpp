#include "ops/output.hpp"

#include "core/error.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace oncerun::ops {

namespace {

constexpr int k_usual_width = 80;

/// SGR parameters of ECMA-48, section 8.3.117; only the eight colours that every terminal has.
std::string_view parameter_of(Tone tone) noexcept {
  switch (tone) {
  case Tone::plain:
    return "";
  case Tone::strong:
    return "1";
  case Tone::good:
    return "32";
  case Tone::bad:
    return "31";
  case Tone::doubt:
    return "33";
  case Tone::busy:
    return "36";
  case Tone::faint:
    return "2";
  }
  return "";
}

int width_of_terminal() noexcept {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return k_usual_width;
}

} // namespace

bool colour_wanted(bool terminal, const char* no_color, const char* term) noexcept {
  if (!terminal || (no_color != nullptr && *no_color != '\0')) {
    return false;
  }
  return term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

Output Output::standard(bool json) {
  Output output(stdout, stderr);
  output.json = json;
  output.terminal = ::isatty(STDOUT_FILENO) == 1;
  output.colour =
      !json && colour_wanted(output.terminal, std::getenv("NO_COLOR"), std::getenv("TERM"));
  output.width = output.terminal ? width_of_terminal() : k_usual_width;
  return output;
}

void Output::line(std::string_view text) {
  write(text);
  write("\n");
}

void Output::remark(std::string_view text) {
  put(m_err, m_err_text, text);
  put(m_err, m_err_text, "\n");
}

std::string Output::painted(std::string_view text, Tone tone) const {
  const std::string_view parameter = parameter_of(tone);
  if (!colour || parameter.empty() || text.empty()) {
    return std::string(text);
  }
  std::string result = "\x1b[";
  result.append(parameter).append("m").append(text).append("\x1b[0m");
  return result;
}

void Output::close() {
  if (m_out == nullptr) {
    return;
  }
  const bool failed_before = std::ferror(m_out) != 0;
  errno = 0;
  if (std::fflush(m_out) != 0 || failed_before) {
    const int error = errno != 0 ? errno : EIO;
    throw core::system_error(core::Outcome::unwritable, "write to", "standard output", error);
  }
}

void Output::put(std::FILE* file, std::string* text, std::string_view what) {
  if (text != nullptr) {
    text->append(what);
  } else if (file != nullptr) {
    // A failure stays in the stream's error flag, which close() reads.
    (void)std::fwrite(what.data(), 1, what.size(), file);
  }
}

} // namespace oncerun::ops
