#pragma once

#include "ops/output.hpp"

#include <string>
#include <utility>
#include <vector>

namespace oncerun::ops {

struct Cell {
  // Texts are cells, so that a row reads as a list of them.
  Cell(std::string what = "-", Tone how = Tone::plain) : text(std::move(what)), tone(how) {}
  Cell(const char* what, Tone how = Tone::plain) : text(what), tone(how) {}
  std::string text; ///< made printable when the cell is added
  Tone tone;
};

/// A table for people: a header line, columns aligned by display width, two blanks between them, no
/// blanks at a line's end. On a terminal a table that is too wide has its widest columns narrowed;
/// elsewhere nothing is ever cut, so that grep and awk find everything.
class Table {
 public:
  explicit Table(std::vector<std::string> titles);
  /// One cell a column; an empty text shows as "-".
  void add(std::vector<Cell> row);
  [[nodiscard]] bool empty() const noexcept { return m_rows.empty(); }
  void print(Output& output) const;

 private:
  [[nodiscard]] std::vector<int> widths(const Output& output) const;
  static void print_row(const std::vector<Cell>& row, const std::vector<int>& widths,
                        Output& output);

  std::vector<Cell> m_titles;
  std::vector<std::vector<Cell>> m_rows;
};

} // namespace oncerun::ops
