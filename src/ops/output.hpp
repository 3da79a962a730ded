#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace oncerun::ops {

/// How a piece of text is meant; colour is only its look on a terminal.
enum class Tone { plain, strong, good, bad, doubt, busy, faint };

/// Where a subcommand writes, and for whom. The sinks are not owned.
class Output {
 public:
  Output(std::FILE* out, std::FILE* err) : m_out(out), m_err(err) {}
  /// For tests: both go into texts.
  Output(std::string& out, std::string& err) : m_out_text(&out), m_err_text(&err) {}

  /// stdout and stderr as they are: terminal, width and colour are found out.
  [[nodiscard]] static Output standard(bool json);

  bool json = false;     ///< one JSON document instead of text for people
  bool terminal = false; ///< stdout is a terminal: lines are cut at its width
  bool colour = false;
  int width = 80; ///< columns of the terminal; not looked at without one

  void write(std::string_view text) { put(m_out, m_out_text, text); }
  /// A line, with its end.
  void line(std::string_view text);
  /// A line on stderr: what a person must see although stdout is parsed.
  void remark(std::string_view text);
  /// The text in the tone's colour, where colour is on.
  [[nodiscard]] std::string painted(std::string_view text, Tone tone) const;
  /// Throws Error (unwritable) if what was written did not arrive, as on a full disk: a list that
  /// is cut off must not look complete. To be called once, at the end.
  void close();

 private:
  static void put(std::FILE* file, std::string* text, std::string_view what);

  std::FILE* m_out = nullptr;
  std::FILE* m_err = nullptr;
  std::string* m_out_text = nullptr;
  std::string* m_err_text = nullptr;
};

/// Colour is wanted on a terminal that can show it, unless NO_COLOR is set to anything but an empty
/// text (no-color.org). The variables are given as getenv(3) returns them.
[[nodiscard]] bool colour_wanted(bool terminal, const char* no_color, const char* term) noexcept;

} // namespace oncerun::ops
