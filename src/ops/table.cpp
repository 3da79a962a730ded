#include "ops/table.hpp"

#include "ops/human.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace oncerun::ops {

namespace {

constexpr int k_gap = 2;
/// A column is not narrowed below this: less would say nothing.
constexpr int k_least_width = 8;

} // namespace

Table::Table(std::vector<std::string> titles) {
  for (std::string& title : titles) {
    m_titles.emplace_back(std::move(title), Tone::strong);
  }
}

void Table::add(std::vector<Cell> row) {
  for (Cell& cell : row) {
    cell.text = cell.text.empty() ? "-" : printable(cell.text);
  }
  row.resize(m_titles.size());
  m_rows.push_back(std::move(row));
}

std::vector<int> Table::widths(const Output& output) const {
  std::vector<int> widths(m_titles.size(), 0);
  const auto widen = [&widths](const std::vector<Cell>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i].text));
    }
  };
  widen(m_titles);
  std::for_each(m_rows.begin(), m_rows.end(), widen);
  if (!output.terminal) {
    return widths;
  }
  const int gaps = k_gap * (static_cast<int>(widths.size()) - 1);
  int excess = std::accumulate(widths.begin(), widths.end(), gaps) - output.width;
  while (excess > 0) {
    const auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= k_least_width) {
      break;
    }
    --*widest;
    --excess;
  }
  return widths;
}

void Table::print_row(const std::vector<Cell>& row, const std::vector<int>& widths,
                      Output& output) {
  int left = output.width;
  std::string line;
  std::string blanks; // written only before something, so that no line ends with them
  for (std::size_t i = 0; i < row.size(); ++i) {
    const int blank = static_cast<int>(blanks.size());
    const int room = output.terminal ? std::min(widths[i], left - blank) : widths[i];
    if (room <= 0) {
      break;
    }
    const std::string text = cut_to_width(row[i].text, room);
    const int used = display_width(text);
    line += blanks + output.painted(text, row[i].tone);
    left -= blank + used;
    blanks.assign(static_cast<std::size_t>(widths[i] - used + k_gap), ' ');
  }
  output.line(line);
}

void Table::print(Output& output) const {
  const std::vector<int> all = widths(output);
  print_row(m_titles, all, output);
  for (const std::vector<Cell>& row : m_rows) {
    print_row(row, all, output);
  }
}

} // namespace oncerun::ops
