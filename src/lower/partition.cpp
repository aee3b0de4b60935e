#include "lower/partition.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "kernels/bind.h"
#include "lower/region.h"
#include "ops/operator_set.h"
#include "shard/micro_batches.h"

namespace tessera {
namespace {

/// A register that holds a value: as it was made, or as it was resharded to.
struct Held {
  RegisterIndex reg;
  int micro_batch = -1;  // -1: once a step
};

class Partition {
 public:
  Partition(const Graph& graph, const ShardedGraph& sharded, const Meshes& meshes,
            int64_t micro_batches, const ReshardOptions& reshard)
      : graph_(graph),
        sharded_(sharded),
        meshes_(meshes),
        count_(micro_batches),
        reshard_(reshard) {
    for (const NamedMesh& mesh : meshes) add_stage(mesh);
    program_.kernels = own_kernels(graph);
    held_.resize(graph.values().size());
  }

  Program run() {
    for (ValueId input : graph_.inputs()) add_input(input);
    for (const Variable& variable : graph_.variables()) add_variable(variable);
    for (int i = 0; i < static_cast<int>(graph_.ops().size()); ++i) lower_op({i});
    for (const Variable& variable : graph_.variables()) program_.next.push_back(next_of(variable));
    for (const auto& [name, value] : graph_.outputs()) add_result(name, value);
    return std::move(program_);
  }

  Program run_region(const RegionFrame& frame) {
    frame_ = &frame;
    for (ValueId input : graph_.inputs()) add_operand(input);
    program_.next.assign(program_.variables.size(), RegisterIndex());
    for (int i = 0; i < static_cast<int>(graph_.ops().size()); ++i) lower_op({i});
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      const auto& [name, value] = graph_.outputs()[i];
      const RegisterIndex reg =
          at(value, placed(frame.ends.outputs[i]), frame.micro_batch, Role::kForward,
             "'" + name + "' leaves the region " + to_text(placed(frame.ends.outputs[i]).attr));
      if (frame.carries)
        program_.next[i] = reg;
      else
        program_.results.emplace_back(name, reg);
    }
    return std::move(program_);
  }

 private:
  // ---- stages and time ----

  /// Stages on equal meshes of equal devices are in one place: they read each other's registers
  /// where these lie.
  void add_stage(const NamedMesh& mesh) {
    const auto is_like_it = [&](const NamedMesh& other) {
      return *other.mesh == *mesh.mesh && other.device == mesh.device;
    };
    const auto earlier = std::find_if(meshes_.begin(), meshes_.end(), is_like_it) - meshes_.begin();
    const StageIndex stage(static_cast<int>(earlier));
    const bool is_new = stage == program_.mesh_of_stage.end_index();
    program_.mesh_of_stage.push_back(is_new ? program_.meshes.end_index() : mesh_of(stage));
    if (is_new) program_.meshes.push_back(mesh.mesh);
  }

  MeshIndex mesh_of(StageIndex stage) const { return program_.mesh_of_stage[stage]; }

  /// That of its first stage.
  const std::string& name_of(MeshIndex mesh) const {
    const auto& stages = program_.mesh_of_stage;
    return meshes_[std::find(stages.begin(), stages.end(), mesh) - stages.begin()].name;
  }

  StageIndex stage_of(const MeshPtr& mesh) const {
    for (size_t i = 0; i < sharded_.meshes.size(); ++i)
      if (sharded_.meshes[i].mesh == mesh) return StageIndex(static_cast<int>(i));
    throw InternalError("a placement names a mesh of the program");
  }

  /// A placement on the mesh of ranks, and what it says of time.
  MicroBatchPlacement placed(const DistAttr& attr) const {
    const MeshPtr& mesh = program_.meshes[mesh_of(stage_of(attr.mesh))];
    if (count_ > 1) return micro_batch_placement(attr, mesh);
    MicroBatchPlacement always{false, -1, ReduceOp::kSum, attr};
    always.attr.mesh = mesh;
    return always;
  }

  bool runs_by_micro_batch(const OpSharding& sharding) const {
    return count_ > 1 && sharding.uses(0);
  }

  // ---- registers ----

  RegisterIndex add_register(const std::string& name, const TensorType& type, const DistAttr& attr,
                             MicroBatch micro_batch = {}) {
    Register reg;
    reg.name = name + (micro_batch.index >= 0 ? " #" + std::to_string(micro_batch.index) : "");
    reg.type = type;
    reg.attr = attr;
    reg.micro_batch = micro_batch;
    for (MeshIndex i : program_.meshes.indices())
      if (program_.meshes[i] == attr.mesh) reg.mesh = i;
    reg.size = byte_size({type.dtype, attr.largest_shape(type.shape)});
    return program_.registers.push_back(std::move(reg));
  }

  MicroBatch part_of(const TensorType& whole, const MicroBatchPlacement& time, int index) const {
    if (!time.by_micro_batch) return {};
    if (time.dim < 0) return {index, -1, 0};
    return {index, time.dim, balanced_part(whole.shape[time.dim], count_, index).begin};
  }

  RegisterIndex own_register(ValueId value, const MicroBatchPlacement& time, int index) {
    const TensorType type = of_one_micro_batch(graph_.type(value), time, count_);
    const MicroBatch part = part_of(graph_.type(value), time, index);
    const RegisterIndex reg = add_register(graph_.value(value).name, type, time.attr, part);
    held_[value.index].push_back({reg, part.index});
    return reg;
  }

  void add_input(ValueId input) {
    const MicroBatchPlacement time = placed(sharded_.of(input));
    for (int i = 0; i < (time.by_micro_batch ? static_cast<int>(count_) : 1); ++i)
      program_.inputs.push_back(
          {graph_.value(input).name, own_register(input, time, i), graph_.type(input)});
  }

  // An input is fed on every mesh that wants it: it need not travel between them.

  bool is_input(ValueId value) const {
    return std::any_of(graph_.inputs().begin(), graph_.inputs().end(),
                       [&](ValueId input) { return input == value; });
  }

  bool is_held_on(ValueId value, const MeshPtr& mesh) const {
    const auto& list = held_[value.index];
    return std::any_of(list.begin(), list.end(), [&](const Held& held) {
      return program_.registers[held.reg].attr.mesh == mesh;
    });
  }

  void add_input_on(ValueId input, MicroBatchPlacement wanted) {
    wanted.attr.partial.clear();
    for (DimSharding& dim : wanted.attr.dims) {
      dim.windows.clear();  // others may want what this one leaves out
      if (dim.chunks > 1) dim = {dim.axes};
    }
    for (int i = 0; i < (wanted.by_micro_batch ? static_cast<int>(count_) : 1); ++i) {
      const RegisterIndex reg = own_register(input, wanted, i);
      Register& fed = program_.registers[reg];
      fed.name += " on " + name_of(fed.mesh);
      program_.inputs.push_back({graph_.value(input).name, reg, graph_.type(input)});
    }
  }

  void add_variable(const Variable& variable) {
    const MicroBatchPlacement time = placed(sharded_.of(variable.value));
    if (time.by_micro_batch)
      throw UserError(
          "variable '" + graph_.value(variable.value).name +
              "' is kept once a step, and its next value is made by micro-batch",
          "each micro-batch makes a part of it, and they are not put together",
          "use one micro-batch, or make the next value from what is reduced over the batch",
          ExitCode::kBadConfig);
    keep(variable.value, own_register(variable.value, time, -1), variable.initializer);
  }

  void keep(ValueId variable, RegisterIndex value, const Initializer& initializer) {
    program_.registers[value].storage = Register::Storage::kVariable;
    program_.registers[value].variable = static_cast<int>(program_.variables.size());
    program_.variables.push_back({graph_.value(variable).name, value, initializer});
  }

  /// An operand of the region: the op keeps it.
  void add_operand(ValueId input) {
    keep(input, own_register(input, placed(sharded_.of(input)), frame_->micro_batch), {});
  }

  // ---- ops ----

  void lower_op(OpId id) {
    const Op& op = graph_.op(id);
    const OpView op_view = view(graph_, op);
    const ShardingRule& rule = sharded_.rules[id.index];
    const OpSharding& sharding = sharded_.of(id);
    const KernelCall call = op.regions.empty()
                                ? op_view.definition->kernel(op_view, factor_splits(rule, sharding))
                                : KernelCall{op.kind, {}, {}, ""};
    if (!runs_by_micro_batch(sharding)) {
      lower_instance(op, op_view, rule, sharding, count_ == 1 ? call : in_micro_batch(call, -1),
                     -1);
      return;
    }
    std::vector<RegisterIndex> sums(op.outputs.size());
    const int only = frame_ ? frame_->micro_batch : -1;
    for (int i = std::max(only, 0); i < (only < 0 ? static_cast<int>(count_) : only + 1); ++i) {
      const std::vector<RegisterIndex> outputs =
          lower_instance(op, op_view, rule, sharding, in_micro_batch(call, i), i);
      for (size_t o = 0; o < outputs.size(); ++o)
        accumulate(op, op_view, rule, sharding, o, outputs[o], i, sums[o]);
    }
  }

  /// Outside of micro-batches (index -1) only the numbers of the axes change.
  KernelCall in_micro_batch(KernelCall call, int64_t index) const {
    for (LocalInt& value : call.ints) value = tessera::in_micro_batch(value, count_, index);
    return call;
  }

  std::vector<RegisterIndex> lower_instance(const Op& op, const OpView& op_view,
                                            const ShardingRule& rule, const OpSharding& sharding,
                                            KernelCall call, int index) {
    Instruction instruction;
    instruction.role = op.role;
    instruction.micro_batch = index;
    instruction.step.op = op.name;
    instruction.stage = stage_ = stage_of(sharding.mesh);
    instruction.mesh = mesh_of(stage_);
    instruction.step.call = std::move(call);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const MicroBatchPlacement needed =
          placed(input_attr(op_view, rule, sharding, static_cast<int>(i)));
      instruction.step.inputs.push_back(at(op.inputs[i], needed, index, op.role,
                                           "op '" + op.name + "' needs " + to_text(needed.attr)));
    }
    for (size_t i = 0; i < op.outputs.size(); ++i)
      instruction.step.outputs.push_back(own_register(
          op.outputs[i], placed(output_attr(op_view, rule, sharding, static_cast<int>(i))), index));
    if (!op.regions.empty())
      instruction.step.control = make_control(op, op_view, rule, sharding, index);
    instruction.step.workspace = add_workspace(instruction.step, program_.meshes[instruction.mesh]);
    const std::vector<RegisterIndex> outputs = instruction.step.outputs;
    program_.instructions.push_back(std::move(instruction));
    return outputs;
  }

  std::shared_ptr<const Control> make_control(const Op& op, const OpView& op_view,
                                              const ShardingRule& rule, const OpSharding& sharding,
                                              int index) const {
    RegionSite site{op,     {},    {},      program_.meshes[mesh_of(stage_of(sharding.mesh))],
                    count_, index, reshard_};
    for (int i = 0; i < static_cast<int>(op.inputs.size()); ++i)
      site.inputs.push_back(input_attr(op_view, rule, sharding, i));
    for (int i = 0; i < static_cast<int>(op.outputs.size()); ++i)
      site.outputs.push_back(output_attr(op_view, rule, sharding, i));
    return lower_control(site);
  }

  /// Adds the addend of one micro-batch to those before it, as soon as it is made; after the last
  /// one the value is there once a step.
  void accumulate(const Op& op, const OpView& op_view, const ShardingRule& rule,
                  const OpSharding& sharding, size_t output, RegisterIndex addend, int index,
                  RegisterIndex& sum) {
    const MicroBatchPlacement time =
        placed(output_attr(op_view, rule, sharding, static_cast<int>(output)));
    if (!time.by_micro_batch || time.dim >= 0) return;
    const ValueId value = op.outputs[output];
    if (frame_) return;  // addends leave a region as they are
    const bool last = index + 1 == count_;
    if (index == 0) {
      sum = addend;
      return;
    }
    const std::string& name = graph_.value(value).name;
    const RegisterIndex next =
        last ? add_register(name, graph_.type(value), time.attr)
             : add_register(name + ".sum", graph_.type(value), time.attr, {index, -1, 0});
    Instruction instruction;
    instruction.role = op.role;
    instruction.micro_batch = index;
    instruction.stage = stage_;
    instruction.mesh = mesh_of(stage_);
    instruction.step = {
        {accumulating_kernel(time.reduce), {}, {}, ""}, {sum, addend}, {next}, {}, name + ".sum"};
    program_.instructions.push_back(std::move(instruction));
    sum = next;
    if (last) held_[value.index].push_back({next, -1});
  }

  static std::string accumulating_kernel(ReduceOp op) {
    switch (op) {
      case ReduceOp::kSum: return "binary.add";
      case ReduceOp::kMax: return "binary.max";
      case ReduceOp::kMin: return "binary.min";
      case ReduceOp::kProd: return "binary.mul";
      case ReduceOp::kAny: return "binary.or";
      case ReduceOp::kAll: return "binary.and";
    }
    throw InternalError("unknown reduction");
  }

  RegisterIndex add_workspace(const KernelStep& step, const MeshPtr& mesh) {
    const Bytes bytes = step.control ? step.control->workspace() : largest_workspace(step, *mesh);
    if (bytes.value() == 0) return {};
    return add_register(step.op + ".workspace", {DType::kBool, {bytes.value()}},
                        DistAttr::replicated(mesh, 1));
  }

  bool has_windows(const KernelStep& step) const {
    const auto windowed = [&](RegisterIndex reg) {
      return program_.registers[reg].attr.has_windows();
    };
    return std::any_of(step.inputs.begin(), step.inputs.end(), windowed) ||
           std::any_of(step.outputs.begin(), step.outputs.end(), windowed);
  }

  /// The rank at the origin has the largest parts, but for windows: of those each different call
  /// is asked.
  Bytes largest_workspace(const KernelStep& step, const Mesh& mesh) const {
    const auto types = [&](const std::vector<RegisterIndex>& list, const Coordinate& coordinate) {
      std::vector<TensorType> local;
      for (RegisterIndex reg : list)
        local.push_back(local_type(program_.registers[reg], coordinate));
      return local;
    };
    Bytes most{0};
    std::set<std::string> asked;
    const int ranks = has_windows(step) ? mesh.size() : 1;
    for (int i = 0; i < ranks; ++i) {
      const Coordinate coordinate = mesh.coordinate_at(i);
      const LocalCall call = localize(step.call, coordinate, types(step.inputs, coordinate),
                                      types(step.outputs, coordinate));
      std::string text;
      for (int64_t value : call.ints) text += std::to_string(value) + " ";
      for (const auto* operands : {&call.inputs, &call.outputs})
        for (const TensorType& type : *operands) text += to_text(type);
      if (asked.insert(std::move(text)).second)
        most = std::max(most, bind_kernel(call, program_.kernels.get()).workspace);
    }
    return most;
  }

  // ---- resharding ----

  int64_t travelling_bytes(const TensorType& type, const DistAttr& from, const DistAttr& to) const {
    // The rank at the origin holds the largest parts; a rank apart from it would do as well.
    const std::vector<Exchange> exchanges = plan_reshard(type, from, to, reshard_);
    int64_t most = 0;
    for (Rank rank : {to.mesh->ranks().front(), to.mesh->ranks().back()})
      most = std::max(most, received_elements(type.shape, exchanges, rank));
    return most * size_of(type.dtype);
  }

  /// The register that holds `value` as `wanted` in a micro-batch, or once a step; made by
  /// exchanges when there is none yet.
  RegisterIndex at(ValueId value, const MicroBatchPlacement& wanted, int index, Role role,
                   const std::string& reason) {
    const int micro_batch = wanted.by_micro_batch ? index : -1;
    if (is_input(value) && !is_held_on(value, wanted.attr.mesh)) add_input_on(value, wanted);
    RegisterIndex best;
    int64_t best_bytes = 0;
    for (const Held& held : held_[value.index]) {
      const Register& reg = program_.registers[held.reg];
      // Micro-batches of another dim hold other elements.
      if (held.micro_batch != micro_batch ||
          (micro_batch >= 0 && reg.micro_batch.dim != wanted.dim))
        continue;
      if (reg.attr == wanted.attr) return held.reg;
      if (!may_become(reg.type.shape, reg.attr, wanted.attr)) continue;
      const int64_t bytes = travelling_bytes(reg.type, reg.attr, wanted.attr);
      if (best.is_none() || bytes < best_bytes) {
        best = held.reg;
        best_bytes = bytes;
      }
    }
    if (best.is_none()) best = whole_to_become_partial(value, wanted, index, role, reason);
    const Register source = program_.registers[best];
    for (const Exchange& exchange : plan_reshard(source.type, source.attr, wanted.attr, reshard_))
      best = exchange_into(value, best, exchange, role, reason);
    return best;
  }

  /// A mark wants addends of a tensor that is none: the first rank of the axis gets it, the
  /// others the identity.
  RegisterIndex whole_to_become_partial(ValueId value, MicroBatchPlacement wanted, int index,
                                        Role role, const std::string& reason) {
    if (wanted.attr.partial.empty() && frame_)
      throw UserError("'" + graph_.value(value).name +
                          "' inside a While or an If is needed for the whole batch at once (" +
                          reason + ")",
                      "the region is run for each micro-batch by itself",
                      "use one micro-batch, or let '" + graph_.value(value).name +
                          "' not depend on all rows of the batch",
                      ExitCode::kBadConfig);
    if (wanted.attr.partial.empty())
      throw UserError(
          "'" + graph_.value(value).name + "' is needed " +
              (wanted.by_micro_batch ? "by micro-batch" : "for the whole batch at once") + " (" +
              reason + ")",
          wanted.by_micro_batch
              ? "it is made once a step, or its micro-batches divide another dim"
              : "each micro-batch makes a part of it, and they are not put together",
          "use one micro-batch, or remove the mark that keeps this tensor from following the batch",
          ExitCode::kBadConfig);
    wanted.attr.partial.clear();
    return at(value, wanted, index, role, reason);
  }

  /// Partial sums are kept where they were made; windows may leave out what is wanted; a whole
  /// tensor becomes one only when a mark on an op asks for it.
  static bool may_become(const Shape& shape, const DistAttr& from, const DistAttr& to) {
    if (!to.partial.empty() && from.mesh != to.mesh) return false;
    if (!holds_all_of(shape, from, to)) return false;
    return std::all_of(to.partial.begin(), to.partial.end(), [&](const PartialAxis& p) {
      return std::find(from.partial.begin(), from.partial.end(), p) != from.partial.end();
    });
  }

  RegisterIndex exchange_into(ValueId value, RegisterIndex source, const Exchange& exchange,
                              Role role, const std::string& reason) {
    const Register from = program_.registers[source];
    const RegisterIndex target = add_register(graph_.value(value).name + " " + to_text(exchange.to),
                                              from.type, exchange.to, from.micro_batch);
    Register& made = program_.registers[target];
    if (program_.meshes.size() > 1) made.name += " on " + name_of(made.mesh);
    held_[value.index].push_back({target, from.micro_batch.index});
    Instruction instruction;
    instruction.is_exchange = true;
    instruction.role = role;
    instruction.micro_batch = from.micro_batch.index;
    instruction.stage = stage_;
    instruction.mesh = made.mesh;
    instruction.exchange = exchange;
    instruction.source = source;
    instruction.target = target;
    instruction.reason =
        "'" + graph_.value(value).name + "' is " + to_text(exchange.from) + ", " + reason;
    program_.instructions.push_back(std::move(instruction));
    return target;
  }

  RegisterIndex next_of(const Variable& variable) {
    if (!variable.next) return {};
    stage_ = stage_of(sharded_.of(variable.value).mesh);
    return at(*variable.next, placed(sharded_.of(variable.value)), -1, Role::kOptimizer,
              "variable '" + graph_.value(variable.value).name + "' keeps its placement");
  }

  /// What each micro-batch has a part of (the logits) is not handed out.
  void add_result(const std::string& name, ValueId value) {
    DistAttr attr = sharded_.of(value);
    attr.partial.clear();
    const MicroBatchPlacement time = placed(attr);
    if (time.by_micro_batch) return;
    stage_ = stage_of(attr.mesh);
    program_.results.emplace_back(
        name, at(value, time, -1, Role::kForward, "output '" + name + "' is handed out"));
  }

  const Graph& graph_;
  const ShardedGraph& sharded_;
  const Meshes& meshes_;  // of ranks: without time
  int64_t count_;
  ReshardOptions reshard_;
  Program program_;
  StageIndex stage_{0};                  // for which something is lowered
  const RegionFrame* frame_ = nullptr;   // of a region
  std::vector<std::vector<Held>> held_;  // by value: as it was made first, then as resharded
};

}  // namespace

Program partition(const Graph& graph, const ShardedGraph& sharded, const Meshes& meshes,
                  int64_t micro_batches, const ReshardOptions& reshard) {
  return Partition(graph, sharded, meshes, micro_batches, reshard).run();
}

Program partition(const Graph& graph, const ShardedGraph& sharded) {
  return partition(graph, sharded, sharded.meshes, 1);
}

Program partition_region(const Graph& region, const ShardedGraph& sharded, const Meshes& meshes,
                         const RegionFrame& frame) {
  return Partition(region, sharded, meshes, frame.micro_batches, frame.reshard).run_region(frame);
}

}  // namespace tessera
