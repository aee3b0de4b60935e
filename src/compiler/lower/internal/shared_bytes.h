// Which registers of a list share bytes with a register: in an arena, or in the memory of a
// variable.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "task_graph/tasks/task_graph.h"

namespace tessera {

class SharedBytes {
 public:
  /// requires  the registers have offsets; `registers` outlives this object
  SharedBytes(const RegisterTable& registers, std::span<const RegisterIndex> list);

  /// Those of the list that share bytes with `reg` and are not hidden, ascending; `reg` itself when
  /// it is one of them.
  ///   time  O(found log list)
  std::vector<RegisterIndex> with(RegisterIndex reg) const;

  /// From here on with() leaves the register out, or no longer. One that is not in the list stays
  /// left out.
  ///   time  O(log list)
  void hide(RegisterIndex reg);
  void show(RegisterIndex reg);

 private:
  /// A range of the arena of a mesh, or (variable >= 0) the memory of a variable.
  struct Place {
    MeshIndex mesh;
    int variable = -1;
    int64_t begin = 0, end = 1;
    auto operator<=>(const Place&) const = default;
  };
  struct Entry {
    Place place;
    RegisterIndex reg;
  };
  /// A node of a binary tree over the entries: it covers those from `begin` to `end`.
  struct Node {
    size_t index = 0;
    size_t begin = 0, end = 0;
    Node left() const { return {2 * index + 1, begin, begin + (end - begin) / 2}; }
    Node right() const { return {2 * index + 2, begin + (end - begin) / 2, end}; }
    bool is_leaf() const { return end - begin == 1; }
  };

  Place place_of(RegisterIndex reg) const;
  int64_t set_latest_ends(Node node);
  /// Sets the end of an entry below `node`, and the latest ends above it.
  void set_end(Node node, size_t entry, int64_t end);
  /// Adds the entries of [first, limit) under `node` that end after `at`.
  void find(Node node, size_t first, size_t limit, int64_t at,
            std::vector<RegisterIndex>& found) const;

  const RegisterTable& registers_;
  std::vector<Entry> entries_;        // by place
  std::vector<int64_t> latest_ends_;  // by node, of the entries that are not hidden
  std::unordered_map<RegisterIndex, size_t> entry_of_;
};

}  // namespace tessera
