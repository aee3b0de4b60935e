#include "compiler/lower/testing/unroll.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "compiler/lower/internal/instances.h"

namespace tessera {
namespace {

/// A register of the rolled program in one micro-batch.
RegisterForm form_in_micro_batch(const RegisterForm& each, int micro_batch) {
  RegisterForm reg = each;
  reg.name = each.name.numbered(micro_batch).text();
  MicroBatch& part = reg.micro_batch;
  if (part.index < 0) return reg;  // a copy, for one pass, of what is there once a step
  part.index = micro_batch;
  if (part.dim < 0) return reg;
  const int64_t chunks = reg.chunk.dim == part.dim ? reg.chunk.count : 1;
  part.begin = micro_batch * reg.type->shape[part.dim] * chunks;
  return reg;
}

void put_into_arena(RegisterForm& reg) {
  reg.storage = Register::Storage::kArena;
  reg.variable = -1;
}

/// The sum up to a micro-batch that is not the last one.
///   name  with a mark for the number of the micro-batch
RegisterForm sum_so_far(const RegisterForm& complete, const NameTemplate& name, int micro_batch) {
  RegisterForm reg = complete;
  reg.name = name.numbered(micro_batch).text();
  reg.micro_batch = {micro_batch, -1, 0};
  put_into_arena(reg);
  return reg;
}

class Unroller {
 public:
  explicit Unroller(Program rolled)
      : rolled_(std::move(rolled)),
        count_(rolled_.rolled->micro_batches),
        instances_(rolled_),
        made_of_(instances_.size()),
        sum_names_(rolled_.registers.size()) {}

  Program run(const InstanceOrder& order) {
    made_.meshes = std::move(rolled_.meshes);
    made_.mesh_of_stage = std::move(rolled_.mesh_of_stage);
    made_.viewed_stage = std::move(rolled_.viewed_stage);
    made_.devices = std::move(rolled_.devices);
    made_.kernels = std::move(rolled_.kernels);
    made_.registers.reserve(instances_.size());
    add_registers();
    made_.instructions.reserve(order.size());
    instances_left_.assign(rolled_.instructions.size(), 0);
    for (const InstructionInstance& instance : order) ++instances_left_[instance.instruction];
    for (const InstructionInstance& instance : order) add(instance);
    for (ProgramInput& input : rolled_.inputs)
      for (RegisterIndex instance : instances_.at(input.value))
        made_.inputs.push_back({input.name, made_of_[instance], input.type});
    for (ProgramVariable& variable : rolled_.variables) {
      variable.value = whole(variable.value);
      made_.variables.push_back(std::move(variable));
    }
    for (RegisterFormIndex next : rolled_.next)
      made_.next.push_back(next.is_none() ? next : whole(next));
    for (auto& [name, reg] : rolled_.results) made_.results.emplace_back(name, whole(reg));
    return std::move(made_);
  }

 private:
  RegisterFormIndex whole(RegisterFormIndex reg) const { return made_of_[instances_.whole(reg)]; }

  // ---- registers ----

  void add_registers() {
    RegisterFormIndex begin(0);
    for (const RolledForm::LoweredOp& op : rolled_.rolled->ops) {
      add_registers(begin, op.first_register);
      begin = op.first_register;
    }
    add_registers(begin, rolled_.registers.end_index());
  }

  /// Those of one op.
  void add_registers(RegisterFormIndex begin, RegisterFormIndex end) {
    const auto is_once = [&](RegisterFormIndex reg) {
      return instances_.repeats(reg) == Repeats::kOnce;
    };
    const IndexRange<RegisterFormIndex> list(begin, end);
    const int count = std::all_of(list.begin(), list.end(), is_once) ? 1 : count_;
    for (int i = 0; i < count; ++i)
      for (RegisterFormIndex reg : list) add_register(reg, i);
  }

  void add_register(RegisterFormIndex index, int micro_batch) {
    RegisterForm& reg = rolled_.registers[index];
    switch (instances_.repeats(index)) {
      case Repeats::kOnce:
        if (micro_batch == 0) add(instances_.written(index, 0), std::move(reg));
        return;
      case Repeats::kEach:
        add(instances_.written(index, micro_batch), form_in_micro_batch(reg, micro_batch));
        return;
      case Repeats::kSame: {
        RegisterForm same = reg;
        if (micro_batch > 0) put_into_arena(same);
        add(instances_.written(index, micro_batch), std::move(same));
        return;
      }
      case Repeats::kInput:
        for (int i = 0; micro_batch == 0 && i < count_; ++i)
          add(instances_.written(index, i), form_in_micro_batch(reg, i));
        return;
      case Repeats::kSum:
        if (micro_batch > 0)
          add(instances_.written(index, micro_batch),
              micro_batch + 1 < count_ ? sum_so_far(reg, sum_name(index), micro_batch)
                                       : std::move(reg));
    }
  }

  /// One pattern for all micro-batches.
  const NameTemplate& sum_name(RegisterFormIndex sum) {
    NameTemplate& name = sum_names_[sum];
    if (name.empty())
      name = rolled_.registers[sum].name + ".sum #" + std::string(1, kMicroBatchMark);
    return name;
  }

  void add(RegisterIndex instance, RegisterForm reg) {
    if (!rolled_.offsets.empty()) made_.offsets.push_back(rolled_.offsets[instance]);
    made_of_[instance] = made_.registers.push_back(std::move(reg));
  }

  // ---- instructions ----

  void add(const InstructionInstance& instance) {
    const int i = instance.micro_batch;
    Instruction& each = rolled_.instructions[instance.instruction];
    Instruction& made = made_.instructions.emplace_back();
    if (--instances_left_[instance.instruction] == 0)
      made = std::move(each);
    else
      made = each;
    if (i >= 0) made.micro_batch = i;
    made.pass = instance.pass;
    if (const auto varying = std::exchange(made.by_micro_batch, nullptr); varying && i > 0)
      vary(*made.kernel(), *varying, i);
    set_registers(made, i);
    made_.order.push_back({made_.instructions.end_index() - 1, i, made.pass, instance.issue_after});
  }

  static void vary(KernelForm& kernel, const MicroBatchKernel& varying, int micro_batch) {
    if (!varying.int_steps.empty())
      kernel.call.change([&](KernelCall& call) {
        for (size_t k = 0; k < varying.int_steps.size(); ++k)
          call.ints[k].constant += micro_batch * varying.int_steps[k];
      });
    if (varying.control) kernel.control = varying.control(micro_batch);
  }

  void set_registers(Instruction& made, int micro_batch) {
    const auto set_read = [&](RegisterFormIndex& reg) {
      reg = made_of_[instances_.read(reg, micro_batch)];
    };
    const auto set_written = [&](RegisterFormIndex& reg) {
      reg = made_of_[instances_.written(reg, micro_batch)];
    };
    if (KernelForm* kernel = made.kernel()) {
      const bool adds = micro_batch > 0 && is_sum_over_micro_batches(made);
      const RegisterIndex before =
          adds ? instances_.sum_before(made, micro_batch) : RegisterIndex();
      std::for_each(kernel->inputs.begin(), kernel->inputs.end(), set_read);
      if (adds) kernel->inputs.insert(kernel->inputs.begin(), made_of_[before]);
      std::for_each(kernel->outputs.begin(), kernel->outputs.end(), set_written);
      if (!kernel->workspace.is_none()) set_written(kernel->workspace);
    } else if (ExchangeStep* exchange = made.exchange()) {
      std::for_each(exchange->sources.begin(), exchange->sources.end(), set_read);
      std::for_each(exchange->targets.begin(), exchange->targets.end(), set_written);
    } else {
      CopyStep& copy = std::get<CopyStep>(made.step);
      set_read(copy.source);
      set_written(copy.target);
    }
  }

  Program rolled_;
  Program made_;
  const int count_;
  const RegisterInstances instances_;
  IndexedVector<RegisterIndex, RegisterFormIndex> made_of_;  // the registers of the result
  IndexedVector<RegisterFormIndex, NameTemplate> sum_names_;
  /// By instruction: instances that are not made yet. The last one takes what it has.
  IndexedVector<InstructionIndex, int> instances_left_;
};

/// A program that is not rolled, with its instructions in their order.
Program in_order(Program program) {
  std::vector<InstructionIndex> order;
  for (InstructionInstance& instance : program.order)
    order.push_back(
        std::exchange(instance.instruction, InstructionIndex(static_cast<int>(order.size()))));
  if (!order.empty()) reorder(program, order);
  return program;
}

}  // namespace

Program unroll(Program program) {
  if (!program.rolled) return in_order(std::move(program));
  const InstanceOrder order = instances(program);
  return Unroller(std::move(program)).run(order);
}

}  // namespace tessera
