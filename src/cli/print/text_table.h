// Aligned columns for people.
#pragma once

#include <cstdint>
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

/// "1,234,567".
std::string grouped(int64_t number);

/// A count with its noun: counted(1, "rank") = "1 rank", counted(4, "rank") = "4 ranks",
/// counted(8, "batch") = "8 batches".
std::string counted(int64_t number, const std::string& noun);

}  // namespace tessera
