// The variables of a runtime, each in parts: every rank holds its own box. It knows no programs beyond the types of their variables.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tasks/task_graph.h"

namespace tessera {

/// threads  one caller; parts of different ranks may be used at once
class VariableStore {
 public:
  explicit VariableStore(MeshPtr mesh) : mesh_(std::move(mesh)) {}

  /// Allocates, with zeros, what is new.  throws  InternalError when a known variable has another type or placement; nothing is added then
  void add(const TaskGraph& graph);

  /// The memory of one rank's part: it never moves.
  std::byte* part(const std::string& name, int rank_index);

  /// Draws the part of one rank.
  void draw(const TaskVariable& variable, uint64_t seed, int rank_index);
  bool is_set(const std::string& name) const { return find(name).is_set; }
  void mark_set(const std::string& name) { find(name).is_set = true; }

  /// The whole.  throws  InternalError when replicas differ
  Tensor whole(const std::string& name) const;
  /// throws  InternalError when the type differs
  void set(const std::string& name, const Tensor& value);
  std::vector<std::string> names() const;
  Bytes bytes_of(int rank_index) const;

 private:
  struct Variable {
    TensorType type;
    DistAttr attr;
    std::vector<Tensor> parts;  // by rank index
    bool is_set = false;
  };
  const Variable& find(const std::string& name) const;
  Variable& find(const std::string& name);
  void check_known(const TaskVariable& variable, const Register& reg) const;
  Variable make(const Register& reg) const;

  MeshPtr mesh_;
  std::map<std::string, Variable> variables_;
};

/// Does the process at `coordinate` hold the first copy of its box: is it at 0 on every axis that `attr` does not use?
bool is_first_holder(const DistAttr& attr, const Coordinate& coordinate);

}  // namespace tessera
