#include "compiler/lower/partition.h"

#include <algorithm>

#include "base/error.h"
#include "compiler/lower/internal/stage_meshes.h"
#include "compiler/lower/internal/value_registers.h"
#include "compiler/lower/internal/workspace.h"
#include "ir/ops/operator_set.h"
#include "kernels/bind.h"
#include "sharding/propagation/micro_batches.h"

namespace tessera {
namespace {

/// An op, its rule and how it is divided.
struct ShardedOp {
  const Op& op;
  OpView view;
  const ShardingRule& rule;
  const OpSharding& sharding;
  std::vector<MicroBatchPlacement> inputs = {}, outputs = {};  // those of input() and output()

  DistAttr input(size_t index) const {
    return input_attr(view, rule, sharding, static_cast<int>(index));
  }
  DistAttr output(size_t index) const {
    return output_attr(view, rule, sharding, static_cast<int>(index));
  }
};

class Partition {
 public:
  /// frame  of a region; nullptr: `graph` is the whole program
  Partition(const Graph& graph, const ShardedGraph& sharded, const Meshes& meshes,
            const PartitionOptions& options, const RegionFrame* frame)
      : graph_(graph),
        sharded_(sharded),
        options_(options),
        frame_(frame),
        stages_(sharded, meshes, options.micro_batches, program_),
        values_(graph, sharded, stages_, options.reshard, frame != nullptr, program_) {
    program_.kernels = own_kernels(graph);
    find_cheap_values();
  }

  Program run() {
    for (ValueId input : graph_.inputs()) values_.add_input(input, placed(input));
    for (const Variable& variable : graph_.variables()) add_variable(variable);
    RolledForm rolled{stages_.micro_batch_count()};
    for (int i = 0; i < static_cast<int>(graph_.ops().size()); ++i) {
      rolled.ops.push_back(position());
      lower_op({i});
    }
    rolled.ops.push_back(position());
    for (const Variable& variable : graph_.variables()) program_.next.push_back(next_of(variable));
    for (const auto& [name, value] : graph_.outputs()) add_result(name, value);
    if (stages_.micro_batches() > 1) program_.rolled = std::move(rolled);
    return std::move(program_);
  }

  Program run_region() {
    for (ValueId input : graph_.inputs())
      keep(input, values_.add_value(input, placed(input), frame_->micro_batch), {});
    program_.next.assign(program_.variables.size(), RegisterFormIndex());
    for (int i = 0; i < static_cast<int>(graph_.ops().size()); ++i) lower_op({i});
    for (size_t i = 0; i < graph_.outputs().size(); ++i) end_region(i);
    return std::move(program_);
  }

 private:
  RolledForm::LoweredOp position() const {
    return {program_.registers.end_index(), program_.instructions.end_index()};
  }
  MicroBatchPlacement placed(ValueId value) const { return stages_.placed(sharded_.at(value)); }

  // ---- variables and results ----

  void add_variable(const Variable& variable) {
    const MicroBatchPlacement once = placed(variable.value);
    if (once.by_micro_batch)
      throw UserError(
          "variable '" + graph_.value(variable.value).name +
              "' is kept once a step, and its next value is made by micro-batch",
          "each micro-batch makes a part of it, and they are not put together",
          "use one micro-batch, or make the next value from what is reduced over the batch",
          ExitCode::kBadConfig);
    keep(variable.value, values_.add_value(variable.value, once, -1), variable.initializer);
  }

  void keep(ValueId variable, RegisterFormIndex value, const Initializer& initializer) {
    program_.registers[value].storage = Register::Storage::kVariable;
    program_.registers[value].variable = static_cast<int>(program_.variables.size());
    program_.variables.push_back({graph_.value(variable).name, value, initializer});
  }

  RegisterFormIndex next_of(const Variable& variable) {
    if (!variable.next) return {};
    return values_.get(
        *variable.next, placed(variable.value),
        {-1, Role::kOptimizer, stages_.stage_of(sharded_.at(variable.value).mesh), [&] {
           return "variable '" + graph_.value(variable.value).name + "' keeps its placement";
         }});
  }

  /// A result of which each micro-batch has a part (the logits) is not fetched.
  void add_result(const std::string& name, ValueId value) {
    DistAttr attr = sharded_.at(value);
    attr.partial.clear();
    const MicroBatchPlacement whole = stages_.placed(attr);
    if (whole.by_micro_batch) return;
    const ValueReader reader{-1, Role::kForward, stages_.stage_of(attr.mesh),
                             [&] { return "output '" + name + "' is returned"; }};
    program_.results.emplace_back(name, values_.get(value, whole, reader));
  }

  void end_region(size_t output) {
    const auto& [name, value] = graph_.outputs()[output];
    const MicroBatchPlacement end = stages_.placed(frame_->ends.outputs[output]);
    const ValueReader reader{frame_->micro_batch, Role::kForward, StageIndex(0), [&, &text = name] {
                               return "'" + text + "' leaves the region " + to_text(end.attr);
                             }};
    const RegisterFormIndex reg = values_.get(value, end, reader);
    if (frame_->carries)
      program_.next[output] = reg;
    else
      program_.results.emplace_back(name, reg);
  }

  // ---- cheap values ----

  /// Scalars that follow from the inputs of the step alone, such as the rates of an optimizer.
  void find_cheap_values() {
    is_cheap_.assign(graph_.values().size(), false);
    if (frame_) return;
    const auto is_cheap = [&](ValueId value) { return is_cheap_[value.index]; };
    const auto is_scalar = [&](ValueId value) { return graph_.type(value).shape.empty(); };
    for (ValueId input : graph_.inputs()) is_cheap_[input.index] = is_scalar(input);
    for (const Op& op : graph_.ops()) {
      if (!op.regions.empty() || !std::all_of(op.inputs.begin(), op.inputs.end(), is_cheap) ||
          !std::all_of(op.outputs.begin(), op.outputs.end(), is_scalar))
        continue;
      for (ValueId output : op.outputs) is_cheap_[output.index] = true;
    }
  }

  /// The register of an operand. A cheap value is computed on every mesh that reads it: a message
  /// would cost more, and make meshes wait for each other.
  RegisterFormIndex operand(ValueId value, const MicroBatchPlacement& needed,
                            const ValueReader& reader) {
    const OpId producer = graph_.value(value).producer;
    if (is_cheap_[value.index] && producer.index >= 0 && needed.attr.partial.empty() &&
        !values_.is_on(value, needed.attr.mesh))
      lower_again(producer, reader.stage);
    return values_.get(value, needed, reader);
  }

  /// Computes an op with cheap results on the mesh of another stage, too.
  void lower_again(OpId id, StageIndex stage) {
    const Op& op = graph_.op(id);
    const ShardingRule& rule = sharded_.rules[id.index];
    const MeshPtr& mesh = sharded_.meshes[stage.value()].mesh;
    const OpSharding sharding = OpSharding::replicated(mesh, rule);
    const ShardedOp sharded = with_placements({op, view(graph_, op), rule, sharding});
    KernelCall call = sharded.view.definition->kernel(sharded.view, factor_splits(rule, sharding));
    if (stages_.micro_batches() > 1) call = in_micro_batch(std::move(call), -1);
    for (RegisterFormIndex reg : lower_instance(sharded, std::move(call), -1))
      program_.registers[reg].name += " on " + stages_.name_of(stages_.mesh_of(stage));
  }

  // ---- ops ----

  /// The op with `inputs` and `outputs` filled in: all its micro-batches share them.
  ShardedOp with_placements(ShardedOp sharded) const {
    for (size_t i = 0; i < sharded.op.inputs.size(); ++i)
      sharded.inputs.push_back(stages_.placed(sharded.input(i)));
    for (size_t i = 0; i < sharded.op.outputs.size(); ++i)
      sharded.outputs.push_back(stages_.placed(sharded.output(i)));
    return sharded;
  }

  void lower_op(OpId id) {
    const Op& op = graph_.op(id);
    const ShardedOp sharded =
        with_placements({op, view(graph_, op), sharded_.rules[id.index], sharded_.at(id)});
    check_sums(sharded);
    const KernelCall call = op.regions.empty()
                                ? sharded.view.definition->kernel(
                                      sharded.view, factor_splits(sharded.rule, sharded.sharding))
                                : KernelCall{op.kind, {}, {}, ""};
    if (!stages_.runs_by_micro_batch(sharded.sharding)) {
      lower_instance(sharded, stages_.micro_batches() == 1 ? call : in_micro_batch(call, -1), -1);
      return;
    }
    ensure(!frame_ || frame_->micro_batch >= 0, "what is run once a step has no micro-batches");
    const int micro_batch = frame_ ? frame_->micro_batch : kEachMicroBatch;
    const std::vector<RegisterFormIndex> outputs =
        lower_instance(sharded, in_micro_batch(call, micro_batch), micro_batch);
    if (frame_) return;
    vary_by_micro_batch(sharded, call);
    for (size_t i = 0; i < outputs.size(); ++i) accumulate(sharded, i);
  }

  static bool is_sum_of_micro_batches(const MicroBatchPlacement& placed) {
    return placed.by_micro_batch && placed.dim < 0;
  }

  /// Refuses results that a mark has as sums over micro-batches, and that are not.
  void check_sums(const ShardedOp& sharded) const {
    for (size_t i = 0; i < sharded.op.outputs.size(); ++i) {
      const ValueId value = sharded.op.outputs[i];
      const MicroBatchPlacement& made = sharded.outputs[i];
      if (is_sum_of_micro_batches(made) ||
          !is_sum_of_micro_batches(stages_.placed(sharded_.at(value))))
        continue;
      throw UserError(
          "'" + graph_.value(value).name + "' is no sum over micro-batches",
          made.by_micro_batch ? "each micro-batch has rows of it" : "it is computed once a step",
          "remove {partial sum: " + std::string(kMicroBatchAxis) +
              "} from its mark: it is for gradients of parameters",
          ExitCode::kBadConfig);
    }
  }

  /// Sets what changes from one micro-batch to the next in the kernel that was lowered last.
  ///   call  on meshes with the axis of micro-batches
  void vary_by_micro_batch(const ShardedOp& sharded, const KernelCall& call) {
    MicroBatchKernel varying;
    for (const LocalInt& value : call.ints)
      varying.int_steps.push_back(micro_batch_step(value, stages_.micro_batches()));
    Instruction& instruction = program_.instructions.back();
    if (!sharded.op.regions.empty())
      varying.control = regions_by_micro_batch(sharded, program_.meshes[instruction.mesh]);
    const auto& steps = varying.int_steps;
    if (varying.control || std::any_of(steps.begin(), steps.end(), [](auto n) { return n != 0; }))
      instruction.by_micro_batch = std::make_shared<const MicroBatchKernel>(std::move(varying));
  }

  /// Outside of micro-batches (index -1) only the numbers of the axes change.
  KernelCall in_micro_batch(KernelCall call, int64_t index) const {
    for (LocalInt& value : call.ints)
      value = tessera::in_micro_batch(value, stages_.micro_batches(), index);
    return call;
  }

  std::vector<RegisterFormIndex> lower_instance(const ShardedOp& sharded, KernelCall call,
                                                int micro_batch) {
    const Op& op = sharded.op;
    Instruction instruction;
    instruction.role = op.role;
    instruction.micro_batch = micro_batch;
    instruction.stage = stages_.stage_of(sharded.sharding.mesh);
    instruction.mesh = stages_.mesh_of(instruction.stage);
    KernelForm step;
    step.op = op.name;
    step.call = std::move(call);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const MicroBatchPlacement& needed = sharded.inputs[i];
      const auto reason = [&] { return "op '" + op.name + "' needs " + to_text(needed.attr); };
      step.inputs.push_back(
          operand(op.inputs[i], needed, {micro_batch, op.role, instruction.stage, reason}));
    }
    for (size_t i = 0; i < op.outputs.size(); ++i)
      step.outputs.push_back(values_.add_value(op.outputs[i], sharded.outputs[i], micro_batch));
    if (!op.regions.empty())
      step.control =
          regions_by_micro_batch(sharded, program_.meshes[instruction.mesh])(micro_batch);
    const MeshPtr& mesh = program_.meshes[instruction.mesh];
    if (const Bytes bytes = max_workspace(program_, step, *mesh); bytes > Bytes(0))
      step.workspace =
          program_.registers.push_back(workspace_register(op.name, bytes, mesh, instruction.mesh));
    std::vector<RegisterFormIndex> outputs = step.outputs;
    instruction.step = std::move(step);
    program_.instructions.push_back(std::move(instruction));
    return outputs;
  }

  /// Lowers the regions of an op, in one micro-batch or (-1) once a step.
  std::function<std::shared_ptr<const Control>(int)> regions_by_micro_batch(
      const ShardedOp& sharded, const MeshPtr& mesh) const {
    ensure(static_cast<bool>(options_.lower_region), "a graph with regions needs their lowering");
    std::vector<DistAttr> inputs, outputs;
    for (size_t i = 0; i < sharded.op.inputs.size(); ++i) inputs.push_back(sharded.input(i));
    for (size_t i = 0; i < sharded.op.outputs.size(); ++i) outputs.push_back(sharded.output(i));
    return [&op = sharded.op, inputs = std::move(inputs), outputs = std::move(outputs), mesh,
            options = options_](int micro_batch) {
      return options.lower_region(
          {op, inputs, outputs, mesh, options.micro_batches, micro_batch, options.reshard});
    };
  }

  /// Do all readers take the parts of a sum over micro-batches, and none the whole?
  bool is_read_by_micro_batch_alone(ValueId value) const {
    const std::vector<OpId>& users = graph_.value(value).users;
    return !users.empty() && is_sum_of_micro_batches(stages_.placed(sharded_.at(value))) &&
           std::ranges::all_of(users, [&](OpId user) { return takes_parts(user, value); });
  }

  /// Does the op take every operand that is the value as a sum over micro-batches?
  bool takes_parts(OpId user, ValueId value) const {
    const std::vector<ValueId>& inputs = graph_.op(user).inputs;
    const OpView user_view = view(graph_, graph_.op(user));
    for (int i = 0; i < std::ssize(inputs); ++i)
      if (inputs[i] == value && !is_sum_of_micro_batches(stages_.placed(input_attr(
                                    user_view, sharded_.rules[user.index], sharded_.at(user), i))))
        return false;
    return true;
  }

  /// Accumulates the partial values of the micro-batches as they are computed: with that of the
  /// last one the value is complete, once a step. Where the value is partial over micro-batches
  /// alone, each of them is summed over the other axes first, so that the sum is as divided as the
  /// value is.
  void accumulate(const ShardedOp& sharded, size_t output) {
    const MicroBatchPlacement& made = sharded.outputs[output];
    if (!is_sum_of_micro_batches(made)) return;
    const ValueId value = sharded.op.outputs[output];
    if (is_read_by_micro_batch_alone(value)) return;
    const MicroBatchPlacement canonical_placement = stages_.placed(sharded_.at(value));
    const bool is_canonical = is_sum_of_micro_batches(canonical_placement) &&
                              canonical_placement.attr.mesh == made.attr.mesh;
    const MicroBatchPlacement& placed = is_canonical ? canonical_placement : made;
    const std::string& name = graph_.value(value).name;
    const RegisterFormIndex partial =
        values_.get(value, placed,
                    {kEachMicroBatch, sharded.op.role, stages_.stage_of(sharded.sharding.mesh),
                     [&] { return "it is accumulated " + to_text(placed.attr); }});
    const RegisterFormIndex sum = values_.add_register(name, graph_.type(value), placed.attr);
    Instruction instruction;
    instruction.role = sharded.op.role;
    instruction.micro_batch = kEachMicroBatch;
    instruction.stage = stages_.stage_of(sharded.sharding.mesh);
    instruction.mesh = stages_.mesh_of(instruction.stage);
    KernelForm step{KernelCall{accumulating_kernel(placed.reduce), {}, {}, ""},
                    {partial},
                    {sum},
                    {},
                    name + ".sum"};
    step.purpose = KernelPurpose::kAccumulate;
    step.workspace = workspace_of_sum(step, instruction.mesh);
    instruction.step = std::move(step);
    program_.instructions.push_back(std::move(instruction));
    values_.add_holder(value, sum, -1);
  }

  /// What the addition to the sum so far needs, which is an operand of the same type.
  RegisterFormIndex workspace_of_sum(KernelForm step, MeshIndex mesh_index) {
    step.inputs.push_back(step.inputs.front());
    const MeshPtr& mesh = program_.meshes[mesh_index];
    const Bytes bytes = max_workspace(program_, step, *mesh);
    if (bytes == Bytes(0)) return {};
    return program_.registers.push_back(workspace_register(step.op, bytes, mesh, mesh_index));
  }

  const Graph& graph_;
  const ShardedGraph& sharded_;
  const PartitionOptions& options_;
  const RegionFrame* frame_;
  Program program_;
  StageMeshes stages_;
  ValueRegisters values_;
  std::vector<bool> is_cheap_;  // by value
};

}  // namespace

Program partition(const Graph& graph, const ShardedGraph& sharded, const Meshes& meshes,
                  const PartitionOptions& options) {
  return Partition(graph, sharded, meshes, options, nullptr).run();
}

Program partition(const Graph& graph, const ShardedGraph& sharded) {
  return partition(graph, sharded, sharded.meshes, {});
}

Program partition_region(const Graph& region, const ShardedGraph& sharded, const Meshes& meshes,
                         const RegionFrame& frame, const PartitionOptions& options) {
  return Partition(region, sharded, meshes, options, &frame).run_region();
}

}  // namespace tessera
