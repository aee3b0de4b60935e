// Aligned columns for people.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// Rows of text in columns two spaces apart, each as wide as its widest cell.
///
///   alignment  a letter a column: 'l' left, 'r' right (numbers)
class TextTable {
 public:
  TextTable(std::vector<std::string> header, std::string alignment);
  /// requires  a cell a column
  void add(std::vector<std::string> row);
  bool empty() const { return rows_.size() <= 1; }
  /// A line a row, without trailing spaces; the first is the header.
  std::string text(int indent = 2) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::string alignment_;
};

}  // namespace tessera
