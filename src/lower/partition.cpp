#include "lower/partition.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ops/operator.h"

namespace tessera {
namespace {

class Partition {
 public:
  Partition(const Graph& graph, const ShardedGraph& sharded) : graph_(graph), sharded_(sharded) {
    for (const NamedMesh& mesh : sharded.meshes) program_.meshes.push_back(mesh.mesh);
    registers_of_.resize(graph.values().size());
  }

  Program run() {
    for (ValueId input : graph_.inputs()) program_.inputs.push_back({graph_.value(input).name, own_register(input, sharded_.of(input))});
    for (const Variable& variable : graph_.variables()) {
      const RegisterIndex value = own_register(variable.value, sharded_.of(variable.value));
      program_.registers[static_cast<size_t>(value)].storage = Register::Storage::kVariable;
      program_.registers[static_cast<size_t>(value)].variable = static_cast<int>(program_.variables.size());
      program_.variables.push_back({graph_.value(variable.value).name, value, variable.initializer});
    }
    for (int i = 0; i < static_cast<int>(graph_.ops().size()); ++i) lower_op({i});
    for (const Variable& variable : graph_.variables())
      program_.next.push_back(variable.next ? at(*variable.next, sharded_.of(variable.value), Role::kOptimizer,
                                                 "variable '" + graph_.value(variable.value).name + "' keeps its placement")
                                            : -1);
    for (const auto& [name, value] : graph_.outputs()) program_.results.emplace_back(name, result_register(name, value));
    return std::move(program_);
  }

 private:
  RegisterIndex add_register(const std::string& name, const TensorType& type, const DistAttr& attr) {
    Register reg;
    reg.name = name;
    reg.type = type;
    reg.attr = attr;
    reg.mesh = mesh_index(attr);
    reg.size = byte_size({type.dtype, attr.largest_shape(type.shape)});
    program_.registers.push_back(std::move(reg));
    return static_cast<RegisterIndex>(program_.registers.size()) - 1;
  }

  int mesh_index(const DistAttr& attr) const {
    for (size_t i = 0; i < program_.meshes.size(); ++i)
      if (program_.meshes[i] == attr.mesh) return static_cast<int>(i);
    throw InternalError("a placement names a mesh of the program");
  }

  RegisterIndex own_register(ValueId value, const DistAttr& attr) {
    const RegisterIndex reg = add_register(graph_.value(value).name, graph_.type(value), attr);
    registers_of_[static_cast<size_t>(value.index)].push_back(reg);
    return reg;
  }

  void lower_op(OpId id) {
    const Op& op = graph_.op(id);
    const OpView op_view = view(graph_, op);
    const Operator& definition = find_operator(op.kind);
    const ShardingRule& rule = sharded_.rules[static_cast<size_t>(id.index)];
    const OpSharding& sharding = sharded_.of(id);
    Instruction instruction;
    instruction.role = op.role;
    instruction.step.op = op.name;
    instruction.mesh = mesh_index({sharding.mesh, {}, {}});
    instruction.step.call = definition.kernel(op_view, factor_splits(rule, sharding));
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const DistAttr needed = input_attr(op_view, rule, sharding, static_cast<int>(i));
      instruction.step.inputs.push_back(at(op.inputs[i], needed, op.role, "op '" + op.name + "' needs " + to_text(needed)));
    }
    for (size_t i = 0; i < op.outputs.size(); ++i)
      instruction.step.outputs.push_back(own_register(op.outputs[i], output_attr(op_view, rule, sharding, static_cast<int>(i))));
    instruction.step.workspace = add_workspace(instruction.step, sharding.mesh);
    program_.instructions.push_back(std::move(instruction));
  }

  RegisterIndex add_workspace(const KernelStep& step, const MeshPtr& mesh) {
    const Coordinate origin = Dims::filled(mesh->axis_count(), 0);
    const auto types = [&](const std::vector<RegisterIndex>& list) {
      std::vector<TensorType> local;
      for (RegisterIndex reg : list) local.push_back(local_type(program_.registers[static_cast<size_t>(reg)], origin));
      return local;
    };
    const Bytes bytes = bind_kernel(localize(step.call, origin, types(step.inputs), types(step.outputs))).workspace;
    if (bytes.value() == 0) return -1;
    return add_register(step.op + ".workspace", {DType::kBool, {bytes.value()}}, DistAttr::replicated(mesh, 1));
  }

  int64_t travelling_bytes(const TensorType& type, const DistAttr& from, const DistAttr& to) const {
    // The process at the origin holds the largest parts; a process apart from it would do as well.
    const std::vector<Exchange> exchanges = plan_reshard(type, from, to);
    int64_t most = 0;
    for (Rank process : {to.mesh->processes().front(), to.mesh->processes().back()})
      most = std::max(most, received_elements(type.shape, exchanges, process));
    return most * size_of(type.dtype);
  }

  /// The register that holds `value` as `attr`; made by exchanges when there is none yet.
  RegisterIndex at(ValueId value, const DistAttr& attr, Role role, const std::string& reason) {
    auto& registers = registers_of_[static_cast<size_t>(value.index)];
    ensure(!registers.empty(), "'" + graph_.value(value).name + "' is made before it is used");
    RegisterIndex best = -1;
    int64_t best_bytes = 0;
    for (RegisterIndex reg : registers) {
      const DistAttr& has = program_.registers[static_cast<size_t>(reg)].attr;
      if (has == attr) return reg;
      if (!may_become(has, attr)) continue;
      const int64_t bytes = travelling_bytes(graph_.type(value), has, attr);
      if (best < 0 || bytes < best_bytes) {
        best = reg;
        best_bytes = bytes;
      }
    }
    if (best < 0) {  // a mark wants addends of a tensor that is none: the first process of the axis gets it, the others the identity
      DistAttr whole = attr;
      whole.partial.clear();
      best = at(value, whole, role, reason);
    }
    for (const Exchange& exchange : plan_reshard(graph_.type(value), program_.registers[static_cast<size_t>(best)].attr, attr))
      best = exchange_into(value, best, exchange, role, reason);
    return best;
  }

  /// Partial sums are kept where they were made; a whole tensor becomes one only when a mark on an op asks for it.
  static bool may_become(const DistAttr& from, const DistAttr& to) {
    if (!to.partial.empty() && from.mesh != to.mesh) return false;
    return std::all_of(to.partial.begin(), to.partial.end(),
                       [&](const PartialAxis& p) { return std::find(from.partial.begin(), from.partial.end(), p) != from.partial.end(); });
  }

  RegisterIndex exchange_into(ValueId value, RegisterIndex source, const Exchange& exchange, Role role, const std::string& reason) {
    const std::string where = program_.meshes.size() > 1 ? " on " + sharded_.meshes[static_cast<size_t>(mesh_index(exchange.to))].name : "";
    const std::string name = graph_.value(value).name + " " + to_text(exchange.to) + where;
    const RegisterIndex target = add_register(name, graph_.type(value), exchange.to);
    registers_of_[static_cast<size_t>(value.index)].push_back(target);
    Instruction instruction;
    instruction.is_exchange = true;
    instruction.role = role;
    instruction.mesh = mesh_index(exchange.to);
    instruction.exchange = exchange;
    instruction.source = source;
    instruction.target = target;
    instruction.reason = "'" + graph_.value(value).name + "' is " + to_text(exchange.from) + ", " + reason;
    program_.instructions.push_back(std::move(instruction));
    return target;
  }

  RegisterIndex result_register(const std::string& name, ValueId value) {
    DistAttr attr = sharded_.of(value);
    attr.partial.clear();
    return at(value, attr, Role::kForward, "output '" + name + "' is handed out");
  }

  const Graph& graph_;
  const ShardedGraph& sharded_;
  Program program_;
  std::vector<std::vector<RegisterIndex>> registers_of_;  // by value: as it was made first, then as resharded
};

/// Index of the last instruction that reads `reg`, or -1.
int last_reader(const Program& program, RegisterIndex reg) {
  for (int i = static_cast<int>(program.instructions.size()) - 1; i >= 0; --i) {
    const auto reads = program.instructions[static_cast<size_t>(i)].reads();
    if (std::find(reads.begin(), reads.end(), reg) != reads.end()) return i;
  }
  return -1;
}

int writer(const Program& program, RegisterIndex reg) {
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const auto writes = program.instructions[static_cast<size_t>(i)].writes();
    if (std::find(writes.begin(), writes.end(), reg) != writes.end()) return i;
  }
  return -1;
}

bool may_write_over(const Program& program, RegisterIndex value, RegisterIndex next) {
  const Register& reg = program.registers[static_cast<size_t>(next)];
  if (reg.storage == Register::Storage::kVariable) return false;  // it is another variable
  const int write = writer(program, next);
  const int read = last_reader(program, value);
  if (write < 0 || read > write) return false;
  const Instruction& instruction = program.instructions[static_cast<size_t>(write)];
  return read < write || (!instruction.is_exchange && instruction.step.outputs.front() == next && runs_in_place(instruction.step.call.kernel));
}

void append_copy(Program& program, size_t variable, RegisterIndex next) {
  Register copy = program.registers[static_cast<size_t>(program.variables[variable].value)];
  const int mesh = copy.mesh;
  copy.name += ".next";
  program.registers.push_back(std::move(copy));
  const auto target = static_cast<RegisterIndex>(program.registers.size()) - 1;
  Instruction instruction;
  instruction.role = Role::kOptimizer;
  instruction.mesh = mesh;
  instruction.step = {{"copy", {}, {}, ""}, {next}, {target}, -1, program.variables[variable].name + ".next"};
  program.instructions.push_back(std::move(instruction));
  program.next[variable] = target;
}

/// Old values that the end of the step still needs: as a result, or as the next value of another variable. Each is copied before anything is written
/// over its variable.
void keep_old_values(Program& program) {
  for (size_t v = 0; v < program.variables.size(); ++v) {
    const RegisterIndex value = program.variables[v].value;
    if (program.next[v] < 0 || program.next[v] == value) continue;
    std::vector<RegisterIndex*> uses;
    for (auto& [name, result] : program.results)
      if (result == value) uses.push_back(&result);
    for (RegisterIndex& next : program.next)
      if (next == value) uses.push_back(&next);
    if (uses.empty()) continue;
    Register kept = program.registers[static_cast<size_t>(value)];
    kept.name += " before the step";
    kept.storage = Register::Storage::kArena;
    kept.variable = -1;
    const int mesh = kept.mesh;
    program.registers.push_back(std::move(kept));
    const auto target = static_cast<RegisterIndex>(program.registers.size()) - 1;
    Instruction instruction;
    instruction.role = Role::kOptimizer;
    instruction.mesh = mesh;
    instruction.step = {{"copy", {}, {}, ""}, {value}, {target}, -1, program.variables[v].name + ".before"};
    program.instructions.push_back(std::move(instruction));
    for (RegisterIndex* use : uses) *use = target;
  }
}

}  // namespace

Program partition(const Graph& graph, const ShardedGraph& sharded) { return Partition(graph, sharded).run(); }

void update_variables_in_place(Program& program) {
  keep_old_values(program);
  for (size_t v = 0; v < program.variables.size(); ++v) {
    const RegisterIndex next = program.next[v];
    const RegisterIndex value = program.variables[v].value;
    if (next < 0 || next == value) continue;
    if (!may_write_over(program, value, next)) {
      append_copy(program, v, next);
      continue;
    }
    Register& reg = program.registers[static_cast<size_t>(next)];
    reg.storage = Register::Storage::kVariable;
    reg.variable = static_cast<int>(v);
  }
}

}  // namespace tessera
