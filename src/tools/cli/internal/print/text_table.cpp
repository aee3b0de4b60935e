#include "tools/cli/internal/print/text_table.h"

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

std::string padded(const std::string& cell, size_t width, char alignment) {
  const std::string space(width - std::min(width, cell.size()), ' ');
  return alignment == 'r' ? space + cell : cell + space;
}

std::string without_trailing_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

TextTable::TextTable(std::vector<std::string> header, std::string alignment)
    : alignment_(std::move(alignment)) {
  add(std::move(header));
}

void TextTable::add(std::vector<std::string> row) {
  ensure(row.size() == alignment_.size(), "a row of a table has a cell a column");
  rows_.push_back(std::move(row));
}

std::string TextTable::text(int indent) const {
  std::vector<size_t> widths(alignment_.size(), 0);
  for (const auto& row : rows_)
    for (size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  std::string text;
  for (const auto& row : rows_) {
    std::string line(indent, ' ');
    for (size_t column = 0; column < row.size(); ++column)
      line += (column == 0 ? "" : "  ") + padded(row[column], widths[column], alignment_[column]);
    text += without_trailing_spaces(std::move(line)) + "\n";
  }
  return text;
}

}  // namespace tessera
