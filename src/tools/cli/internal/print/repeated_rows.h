// Rows of a table that are alike except for the layer that they speak of, joined into one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph/repeated_layers.h"
#include "training/engine/engine.h"

namespace tessera {

using TableRow = std::vector<std::string>;

/// Rows that are alike, as one row.
struct JoinedRow {
  TableRow row;
  std::vector<size_t> members;  // the indices of the rows, in order
};
/// "  x12", after the name of what 12 rows have; "" for one.
std::string count_suffix(int64_t count);

class RepeatedRows {
 public:
  /// Joins nothing.
  RepeatedRows() = default;
  /// Joins the rows of the repeated layers of `graph` that have a scope each.
  explicit RepeatedRows(const Graph& graph);

  /// Does it join anything?
  bool is_joining() const { return !groups_.empty(); }

  /// Joins rows whose cells differ only in the scopes of layers, at the place of the first of them:
  /// "blocks.0.norm1" to "blocks.95.norm1" become "blocks.{0..95}.norm1". Every mention of a layer
  /// is replaced, in any cell, and in names without a layer the number that makes them unique:
  /// "clip.sum_*".
  std::vector<JoinedRow> groups(const std::vector<TableRow>& rows) const;
  /// The same rows, with their number in the cell `counted`: "blocks.{0..95}.norm1  x96".
  std::vector<TableRow> joined(const std::vector<TableRow>& rows, size_t counted) const;

 private:
  /// The scope of a layer: group.prefix + label. Or a number at the end of a name.
  struct Label {
    int group = kNumber;
    int layer = 0;  // or the number
  };
  static constexpr int kNumber = -1;
  struct Group {
    std::string prefix;
    std::vector<std::string> labels;
  };
  /// A text without the layers that it mentions, and these.
  struct Template {
    std::string text;
    std::vector<Label> labels;
    bool has_layer = false;
  };

  Template template_of(const TableRow& row) const;
  void add_name(const std::string& name, Template& result) const;
  static void add_numbered(const std::string& name, Template& result);
  std::string list_text(int group, const std::vector<int>& layers) const;
  TableRow filled(const std::string& text, const std::vector<std::vector<Label>>& mentions) const;

  std::vector<Group> groups_;
  std::map<std::string, Label, std::less<>> label_of_scope_;
  size_t longest_scope_ = 0;  // in parts
};

}  // namespace tessera
