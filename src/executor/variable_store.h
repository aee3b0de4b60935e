// The variables of a runtime, each in parts: every rank holds its own box. It knows no programs
// beyond the types of their variables.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/types.h"
#include "tasks/task_graph.h"

namespace tessera {

/// threads  one caller; parts of different ranks may be used at once
class VariableStore {
 public:
  /// processes  by rank index
  /// is_here    by rank index: are its parts in this store?
  VariableStore(std::vector<Rank> processes, std::vector<bool> is_here)
      : processes_(std::move(processes)), is_here_(std::move(is_here)) {}

  /// Allocates, with zeros, what is new.  throws  InternalError when a known variable has another
  /// type or placement; nothing is added then
  void add(const TaskGraph& graph);

  /// The memory of one rank's part: it never moves.
  std::byte* part(const std::string& name, int rank_index);

  /// What one rank holds, by name.
  std::vector<VariablePart> parts_of(int rank_index);

  /// Draws the part of one rank.
  void draw(const TaskVariable& variable, uint64_t seed, int rank_index);
  bool is_set(const std::string& name) const { return find(name).is_set; }
  void mark_set(const std::string& name) { find(name).is_set = true; }

  /// By rank index: the bytes of each part; empty where the rank is elsewhere, or not in the
  /// variable's mesh.
  using Parts = std::vector<std::span<const std::byte>>;
  Parts parts_here(const std::string& name) const;
  /// Bytes of a rank's part, wherever it is.
  Bytes part_bytes(const std::string& name, int rank_index) const;
  /// A hash of what one rank holds of each variable, in the order of names(); 0 where it holds
  /// none.
  std::vector<uint64_t> hashes(int rank_index) const;
  /// The first variable of which two ranks that should hold the same hold something else.
  struct TornReplica {
    std::string variable;
    Rank first = 0, other = 0;
  };
  /// `hashes`: by rank index, of all ranks.
  std::optional<TornReplica> find_torn(const std::vector<std::vector<uint64_t>>& hashes) const;
  /// The whole; addends are added up in the order of the ranks.  requires  `parts` has those of all
  /// ranks throws  InternalError when replicas differ
  Tensor whole(const std::string& name, const Parts& parts) const;
  /// Of a variable in addends the first rank gets the value, the others zeros.  throws
  /// InternalError when the type differs
  void set(const std::string& name, const Tensor& value);
  std::vector<std::string> names() const;
  Bytes bytes_of(int rank_index) const;

 private:
  struct Variable {
    TensorType type;
    DistAttr attr;
    std::vector<Tensor>
        parts;  // by rank index; empty where the rank is elsewhere, or not in the variable's mesh
    std::vector<Bytes> bytes;  // by rank index: of the part, wherever it is
    bool is_set = false;
  };
  const Variable& find(const std::string& name) const;
  Variable& find(const std::string& name);
  Tensor sum_of_addends(const Variable& variable, const Parts& parts) const;
  void check_known(const TaskVariable& variable, const Register& reg) const;
  Variable make(const Register& reg) const;
  /// Where a rank stands in the variable's mesh.
  std::optional<Coordinate> place(const DistAttr& attr, int rank_index) const {
    return attr.mesh->coordinate_of(processes_[rank_index]);
  }
  bool is_here(int rank_index) const { return is_here_[rank_index]; }
  int rank_count() const { return static_cast<int>(processes_.size()); }

  std::vector<Rank> processes_;
  std::vector<bool> is_here_;
  std::map<std::string, Variable> variables_;
};

/// Does the process at `coordinate` hold the first copy of its box: is it at 0 on every axis that
/// `attr` does not use?
bool is_first_holder(const DistAttr& attr, const Coordinate& coordinate);

}  // namespace tessera
