// Task graphs written by hand, a line a task: for tests and small programs of users of this module.
// The compiler (src/compiler/lower) makes the task graphs of models.
#pragma once

#include <string>
#include <vector>

#include "task_graph/tasks/task_graph.h"

namespace tessera {

// clang-format off
/// Builds a task graph whose registers follow each other in the arena.
///
///     HandMade made(mesh);                       placements in the text form of dist_attr.h
///     const auto x = made.input("x", "f32[8@dp]");
///     const auto y = made.compute("y", {"scalar.mul", {}, {2}, ""}, {x}, "f32[8@dp]");
///     const auto z = made.exchange("gather y", y, "f32[8]");
///     made.result("z", z);
///     run(made.finish());
// clang-format on
class HandMade {
 public:
  explicit HandMade(MeshPtr mesh);

  /// Registers and tasks added from here on are on this mesh: one of the graph, or a new one.
  void place_on(const MeshPtr& mesh);

  RegisterIndex input(const std::string& name, const std::string& type);
  RegisterIndex variable(const std::string& name, const std::string& type,
                         const Initializer& initializer = {});
  /// One kernel as a task; its op has the task's name.
  RegisterIndex compute(const std::string& name, KernelCall call, std::vector<RegisterIndex> inputs,
                        const std::string& type);
  /// The same, writing over the memory of the variable that `variable` reads.
  RegisterIndex update(const std::string& name, KernelCall call, std::vector<RegisterIndex> inputs,
                       RegisterIndex variable);
  /// `from` may lie on another mesh.
  RegisterIndex exchange(const std::string& name, RegisterIndex from, const std::string& type);
  /// Several parts in one task.
  std::vector<RegisterIndex> exchange(const std::string& name,
                                      const std::vector<RegisterIndex>& from,
                                      const std::vector<std::string>& types);
  /// The exchanges of plan_reshard, one after the other.
  RegisterIndex reshard(const std::string& name, RegisterIndex from, const std::string& type);
  void result(const std::string& name, RegisterIndex reg);

  /// What is made so far, to change it by hand.
  TaskGraph& graph() { return graph_; }
  /// Adds a fetch for each mesh and links the tasks.
  TaskGraph finish();

 private:
  RegisterIndex add_register(const std::string& name, const TensorType& type, const DistAttr& attr,
                             TaskId producer, int variable = -1);
  RegisterIndex add_compute(const std::string& name, KernelCall call,
                            std::vector<RegisterIndex> inputs, const DistType& type, int variable);
  TaskId add_task(const std::string& name, Task::Kind kind, MeshIndex mesh,
                  std::vector<RegisterIndex> inputs);
  const MeshPtr& mesh() const { return graph_.meshes[mesh_]; }
  MeshIndex find_mesh(const Mesh& mesh) const;  // none: not one of them
  const RegisterForm& form(RegisterIndex reg) const {
    return graph_.registers.forms()[graph_.registers.numbering().form_of(reg)];
  }
  RegisterIndex exchange_to(const std::string& name, RegisterIndex from, const Exchange& exchange);

  TaskGraph graph_;
  MeshIndex mesh_;
  IndexedVector<MeshIndex, TaskId> feeds_;
};

}  // namespace tessera
