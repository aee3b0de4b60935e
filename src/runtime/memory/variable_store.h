// The variables of a runtime. Every rank holds its own box of each, in memory or, when the program
// says so, in a file. The store knows only the types of the variables of programs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/file_device.h"
#include "runtime/memory/internal/rank_part.h"
#include "runtime/memory/run_types.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

/// threads  one caller; parts of different ranks may be used at once
class VariableStore {
 public:
  /// ranks    by rank index
  /// is_here  by rank index: are its parts in this store?
  /// file     of the variables that rest in a file; it is made when there is one
  VariableStore(std::vector<Rank> ranks, std::vector<bool> is_here, FileDeviceOptions file = {})
      : ranks_(std::move(ranks)), is_here_(std::move(is_here)), file_(std::move(file)) {}

  /// Allocates the new variables, with zeros.
  ///   throws  InternalError when a known variable has another type or placement, or rests
  ///           elsewhere: nothing is added. UserError (1) when the disk has no space for those in
  ///           the file
  void add(const TaskGraph& graph);

  /// Bytes of memory that add() would allocate, without what is in the file.
  Bytes bytes_to_add(const TaskGraph& graph) const;

  /// The memory of one rank's part, or its place in the file; its address does not change.
  std::byte* part(const std::string& name, int rank_index);

  /// Calls `work` with the parts of one rank, by name: one for each box of a variable that is
  /// divided in chunks. What it writes to them is then in the variables.
  void with_parts_of(int rank_index,
                     const std::function<void(std::span<const VariablePart>)>& work);

  /// Samples the part of one rank.
  void initialize(const TaskVariable& variable, uint64_t seed, int rank_index);
  bool is_set(const std::string& name) const { return find(name).is_set; }
  void mark_set(const std::string& name) { find(name).is_set = true; }

  /// By rank index: the bytes of each part; empty when the rank is in another process or not in the
  /// variable's mesh.
  using Parts = std::vector<std::span<const std::byte>>;
  Parts parts_here(const std::string& name) const;
  /// Bytes of a rank's part, in any process.
  Bytes part_bytes(const std::string& name, int rank_index) const;
  /// The hash of one rank's part of each variable, in the order of names(); 0 when the rank has no
  /// part here.
  std::vector<uint64_t> hashes(int rank_index) const;
  /// The first variable of which two ranks hold the same box with different bits.
  struct ReplicaMismatch {
    std::string variable;
    Rank first = 0, other = 0;
  };
  /// `hashes` is by rank index and has those of all ranks.
  std::optional<ReplicaMismatch> find_replica_mismatch(
      const std::vector<std::vector<uint64_t>>& hashes) const;
  /// The whole variable. Partial values are added up in the order of the ranks.
  ///   requires  `parts` has those of all ranks
  ///   throws    InternalError when replicas differ
  Tensor whole(const std::string& name, const Parts& parts) const;
  /// Sets a variable. Of a partial variable the first rank gets the value and the others get zeros.
  ///   throws  InternalError when the type differs
  void set(const std::string& name, const Tensor& value);
  std::vector<std::string> names() const;
  /// Of the memory of a rank.
  Bytes bytes_of(int rank_index) const;
  FileDevice& file() { return file_; }

 private:
  struct Variable {
    TensorType type;
    DistAttr attr;
    bool is_in_file = false;
    std::vector<RankPart> parts;  // by rank index; empty as in Parts
    std::vector<Bytes> bytes;     // by rank index: bytes of the part, in any process
    bool is_set = false;
  };
  /// The boxes of a rank, in its part.
  static std::vector<Piece> pieces_of(const Variable& variable, const Coordinate& coordinate);
  const Variable& find(const std::string& name) const;
  Variable& find(const std::string& name);
  Tensor sum_of_partials(const Variable& variable, const Parts& parts) const;
  void check_known(const TaskVariable& variable, const Register& reg, bool is_in_file) const;
  Variable make(const Register& reg, bool is_in_file);
  /// The coordinate of a rank in the variable's mesh.
  std::optional<Coordinate> coordinate_of(const DistAttr& attr, int rank_index) const {
    return attr.mesh->coordinate_of(ranks_[rank_index]);
  }
  int rank_count() const { return static_cast<int>(ranks_.size()); }

  std::vector<Rank> ranks_;
  std::vector<bool> is_here_;
  FileDevice file_;
  std::map<std::string, Variable> variables_;  // declared after the file, in which some of them are
};

/// Does the rank at `coordinate` hold the first copy of its box? It does when it is at 0 on every
/// axis that `attr` does not use.
bool is_first_holder(const DistAttr& attr, const Coordinate& coordinate);

}  // namespace tessera
