// What each register of a task graph stands for, as the check of placements comes to know it: which
// value of the serial graph, how divided, of which micro-batch. A register's declaration must say
// the same.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "tasks/task_graph.h"

namespace tessera {

constexpr int kTime =
    0;  // of a mesh with micro-batches: its first axis; with one micro-batch there is no such axis

/// What a register stands for.
struct SymbolicPlacement {
  ValueId value;  // of the serial graph; invalid: nothing filled it yet
  DistAttr attr;  // on its mesh, with several micro-batches with time in front
  std::vector<int>
      summed;        // of addends over time: the micro-batches of which it has one, ascending
  Chunk chunk = {};  // which part of that
};

/// threads  one caller at a time
class SymbolicPlacements {
 public:
  SymbolicPlacements(const Graph& graph, const TaskGraph& tasks, int64_t micro_batches);

  // ---- time ----

  int64_t micro_batches() const { return count_; }
  bool has_time() const { return count_ > 1; }
  bool uses_time(const DistAttr& attr) const { return has_time() && attr.uses(kTime); }
  bool is_partial_in_time(const DistAttr& attr) const {
    return has_time() && attr.is_partial_on(kTime);
  }
  std::vector<PartialAxis> without_time(std::vector<PartialAxis> partial) const;
  /// The addends over micro-batches; ascending axes have time first.  requires
  /// is_partial_in_time(attr)
  static const PartialAxis& over_time(const DistAttr& attr) { return attr.partial.front(); }
  /// `coordinate` in a micro-batch; what is done once a step is the same in all.
  Coordinate in_time(int micro_batch, const Coordinate& coordinate) const;

  // ---- registers ----

  const SymbolicPlacement& at(RegisterIndex reg) const { return placements_[reg]; }
  const IndexedVector<RegisterIndex, SymbolicPlacement>& all() const { return placements_; }
  /// The register that was written to the memory of a variable last.
  RegisterIndex last_in_variable(int variable) const { return last_in_variable_.at(variable); }
  /// The dims of a register as they are declared, on its mesh with time in front.
  DistAttr declared_dims(const Register& reg) const;
  std::vector<PartialAxis> declared_partial(const Register& reg) const;

  /// Fills a register with what is known of it.
  ///   throws  InternalError when its declaration says otherwise
  void fill(RegisterIndex index, SymbolicPlacement standing);

 private:
  int with_time(int axis) const { return has_time() ? axis + 1 : axis; }
  void check_time(const Register& reg, const DistAttr& attr) const;
  void check_type(const Register& reg, const TensorType& whole) const;
  static void check_chunk(const Register& reg, const Chunk& chunk);

  const Graph& graph_;
  const TaskGraph& tasks_;
  int64_t count_;
  IndexedVector<MeshIndex, MeshPtr> timed_;  // with time in front
  IndexedVector<RegisterIndex, SymbolicPlacement> placements_;
  std::map<int, RegisterIndex> last_in_variable_;
};

/// throws  InternalError of the check of placements
[[noreturn]] void refuse(const std::string& what);

}  // namespace tessera
