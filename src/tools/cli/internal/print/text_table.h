// Aligned columns for readers.
#pragma once

#include <string>
#include <vector>

namespace tessera {

/// Rows of text in columns two spaces apart, each as wide as its widest cell.
///
///   alignment  a letter per column: 'r' right (numbers), others left
class TextTable {
 public:
  TextTable(std::vector<std::string> header, std::string alignment);
  ///   requires  one cell per column
  void add(std::vector<std::string> row);
  bool empty() const { return rows_.size() <= 1; }
  /// The table with a line per row, without trailing spaces. The first row is the header.
  std::string text(int indent = 2) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::string alignment_;
};

}  // namespace tessera
