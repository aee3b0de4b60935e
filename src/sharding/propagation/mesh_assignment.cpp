#include "sharding/propagation/mesh_assignment.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "sharding/propagation/named.h"

namespace tessera {
namespace {

constexpr int kUnknown = -1;

class Assignment {
 public:
  Assignment(const Graph& graph, const Meshes& meshes, const std::vector<Mark>& marks)
      : graph_(graph), meshes_(meshes) {
    result_.ops.assign(graph.ops().size(), kUnknown);
    result_.values.assign(graph.values().size(), kUnknown);
    for (const Mark& mark : marks)
      if (!mark.mesh.empty() && mark.kind != Mark::Kind::kTensor) take_op_mark(mark);
    for (const Mark& mark : marks)
      if (!mark.mesh.empty() && mark.kind == Mark::Kind::kTensor) take_tensor_mark(mark);
  }

  MeshAssignment run() {
    for (int i = 0; i < op_count(); ++i)
      if (of_op(i) == kUnknown && graph_.op({i}).role == Role::kForward)
        of_op(i) = mesh_of_operands(graph_.op({i}));
    place_between_towers();
    fill_from_neighbours(Role::kForward);
    assign_values();
    for (int i = 0; i < op_count(); ++i) {
      if (of_op(i) == kUnknown) of_op(i) = mesh_of_derived(graph_.op({i}));
      for (ValueId output : graph_.op({i}).outputs) of_value(output) = of_op(i);
    }
    fill_from_neighbours(Role::kBackward);
    fill_from_neighbours(Role::kOptimizer);
    assign_values();
    return std::move(result_);
  }

 private:
  int op_count() const { return static_cast<int>(graph_.ops().size()); }
  int& of_op(int index) { return result_.ops[index]; }
  int& of_value(ValueId value) { return result_.values[value.index]; }

  int mesh_index(const Mark& mark) const {
    std::vector<std::string> names;
    for (int i = 0; i < std::ssize(meshes_); ++i) {
      if (meshes_[i].name == mark.mesh) return i;
      names.push_back(meshes_[i].name);
    }
    const bool are_several = names.size() > 1;
    throw UserError(
        "mark '" + mark.pattern + "' (" + mark.origin + ") names the mesh '" + mark.mesh +
            "', which is not there",
        are_several ? "the meshes are " + join(names, ", ")
                    : "the plan has one mesh, and a mark assigns ops to one of several",
        are_several
            ? "use one of these, or add the mesh to the plan"
            : "remove the mark, or divide the ranks by \"meshes\" into several, one of them "
              "called '" +
                  mark.mesh + "'",
        ExitCode::kBadConfig);
  }

  /// A mark that names ops of the forward places those, and what is derived from them follows. Only
  /// a mark that names none places ops of the backward and of the optimizer.
  void take_op_mark(const Mark& mark) {
    const int mesh = mesh_index(mark);
    std::vector<OpId> forward, others;
    for (OpId op : ops_named_by(graph_, mark))
      (graph_.op(op).role == Role::kForward ? forward : others).push_back(op);
    for (OpId op : forward.empty() ? others : forward) of_op(op.index) = mesh;
  }

  /// The same of tensors. What makes a tensor runs on its mesh.
  void take_tensor_mark(const Mark& mark) {
    const int mesh = mesh_index(mark);
    std::vector<ValueId> forward, others;
    for (ValueId value : values_named(graph_, mark.pattern)) {
      const OpId producer = graph_.value(value).producer;
      const bool is_forward = producer.index < 0 || graph_.op(producer).role == Role::kForward;
      (is_forward ? forward : others).push_back(value);
    }
    for (ValueId value : forward.empty() ? others : forward) put_tensor(value, mesh, mark);
  }

  void put_tensor(ValueId value, int mesh, const Mark& mark) {
    of_value(value) = mesh;
    const OpId producer = graph_.value(value).producer;
    if (producer.index < 0) return;
    int& place = of_op(producer.index);
    if (place != kUnknown && place != mesh)
      throw UserError("mark '" + mark.pattern + "' (" + mark.origin + ") puts '" +
                          graph_.value(value).name + "' on mesh '" + mark.mesh +
                          "', and another mark puts the op that makes it on '" +
                          meshes_[place].name + "'",
                      "a tensor is made on the mesh where it is stored",
                      "remove one of the two marks", ExitCode::kBadConfig);
    place = mesh;
  }

  bool includes(int larger, int smaller) const {
    const auto& all = meshes_[larger].mesh->ranks();
    const auto& some = meshes_[smaller].mesh->ranks();
    return std::all_of(some.begin(), some.end(), [&](Rank rank) {
      return std::find(all.begin(), all.end(), rank) != all.end();
    });
  }

  /// The mesh of the marked operands, when one has all ranks of the others and more: of two stages
  /// on the same ranks neither is the larger.
  int mesh_of_operands(const Op& op) {
    int mesh = kUnknown;
    for (ValueId input : op.inputs) {
      const int other = of_value(input);
      if (other == kUnknown || other == mesh) continue;
      if (mesh == kUnknown || is_larger(other, mesh))
        mesh = other;
      else if (!is_larger(mesh, other))
        return kUnknown;
    }
    return mesh;
  }

  bool is_larger(int larger, int smaller) const {
    return includes(larger, smaller) && !includes(smaller, larger);
  }

  /// A forward op whose operands come from several meshes runs on that one of them that has all
  /// ranks of the others and more.
  void place_between_towers() {
    int nearest = kUnknown;
    for (int i = 0; i < op_count(); ++i) {
      const Op& op = graph_.op({i});
      if (op.role != Role::kForward) continue;
      if (of_op(i) == kUnknown) of_op(i) = largest_mesh_of_operands(op);
      if (of_op(i) == kUnknown) of_op(i) = nearest;
      nearest = stage_of_mesh(of_op(i));
    }
  }

  int stage_of_mesh(int mesh) const { return mesh == kUnknown ? mesh : stage_of(meshes_, mesh); }

  /// Unknown when no mesh of the operands is larger than all others.
  int largest_mesh_of_operands(const Op& op) {
    std::vector<int> meshes;
    for (ValueId input : op.inputs) {
      const OpId producer = graph_.value(input).producer;
      const int mesh = producer.index >= 0 ? of_op(producer.index) : of_value(input);
      if (mesh != kUnknown) meshes.push_back(mesh);
    }
    for (int mesh : meshes) {
      const bool is_largest = std::all_of(meshes.begin(), meshes.end(), [&](int other) {
        return other == mesh || is_larger(mesh, other);
      });
      const bool is_only = std::count(meshes.begin(), meshes.end(), mesh) == std::ssize(meshes);
      if (is_largest && !is_only) return mesh;
    }
    return kUnknown;
  }

  /// Ops of a role without a mesh take the mesh of the nearest op before them, whatever its role;
  /// the first ones take that of the nearest op after them.
  void fill_from_neighbours(Role role) {
    int nearest = kUnknown;
    for (int i = 0; i < op_count(); ++i) {
      if (of_op(i) == kUnknown && graph_.op({i}).role == role) of_op(i) = nearest;
      if (of_op(i) != kUnknown) nearest = stage_of_mesh(of_op(i));
    }
    nearest = 0;
    for (int i = op_count() - 1; i >= 0; --i) {
      if (of_op(i) == kUnknown && graph_.op({i}).role == role) of_op(i) = nearest;
      if (of_op(i) != kUnknown) nearest = stage_of_mesh(of_op(i));
    }
  }

  /// A sum of gradients runs on the mesh of its operands when one mesh has them all. Then only the
  /// sum is sent to the mesh that produced the value.
  int mesh_of_derived(const Op& op) {
    const int mesh = op.origin.derivation == "gradient sum" ? mesh_of_operands(op) : kUnknown;
    return mesh == kUnknown ? mesh_of_origin(op) : mesh;
  }

  int mesh_of_origin(const Op& op) {
    if (const auto source = graph_.find_op(op.origin.source)) return of_op(source->index);
    if (const auto value = graph_.find_value(op.origin.source)) return of_value(*value);
    return kUnknown;
  }

  /// Assigns values: to the mesh of the producer, or of the first user of an input.
  void assign_values() {
    for (int i = 0; i < op_count(); ++i)
      for (ValueId output : graph_.op({i}).outputs) of_value(output) = of_op(i);
    for (int i = 0; i < std::ssize(graph_.values()); ++i) {
      const Value& value = graph_.value({i});
      if (value.producer.index >= 0 || of_value({i}) != kUnknown) continue;
      for (OpId user : value.users)
        if (of_value({i}) == kUnknown) of_value({i}) = of_op(user.index);
    }
    for (const Variable& variable : graph_.variables()) {
      // Optimizer state is on the mesh of its parameter, even before its users are known.
      if (const auto parameter = graph_.find_value(variable.origin.source);
          parameter && of_value(variable.value) == kUnknown)
        of_value(variable.value) = of_value(*parameter);
    }
    if (has_unknown_ops()) return;
    for (int& mesh : result_.values)
      if (mesh == kUnknown) mesh = 0;
  }

  bool has_unknown_ops() const {
    return std::find(result_.ops.begin(), result_.ops.end(), kUnknown) != result_.ops.end();
  }

  const Graph& graph_;
  const Meshes& meshes_;
  MeshAssignment result_;
};

}  // namespace

int stage_of(const Meshes& meshes, int mesh) {
  const std::string& stage = meshes[mesh].view_of;
  if (stage.empty()) return mesh;
  const auto found = std::ranges::find(meshes, stage, &NamedMesh::name);
  ensure(found != meshes.end(), "a view is one of a mesh of the plan");
  return static_cast<int>(found - meshes.begin());
}

int stage_count(const Meshes& meshes) {
  return static_cast<int>(
      std::ranges::count_if(meshes, [](const NamedMesh& mesh) { return mesh.view_of.empty(); }));
}

Meshes one_mesh(MeshPtr mesh) {
  return {{"all", std::move(mesh)}};
}

MeshAssignment assign_meshes(const Graph& graph, const Meshes& meshes,
                             const std::vector<Mark>& marks) {
  return Assignment(graph, meshes, marks).run();
}

}  // namespace tessera
