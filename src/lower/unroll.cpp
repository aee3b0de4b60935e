#include "lower/unroll.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace tessera {
namespace {

/// How many registers of the unrolled program a register of the rolled one is.
enum class Repeats {
  kOnce,
  kEach,   // one for each micro-batch
  kInput,  // the same; those of all micro-batches are in the feed
  kSame,   // the same; all readers read the first one
  kSum,    // the sum up to each micro-batch but the first; the last one is complete
};

IndexedVector<RegisterIndex, Repeats> repeats_of_registers(const Program& rolled) {
  IndexedVector<RegisterIndex, Repeats> repeats(rolled.registers.size(), Repeats::kOnce);
  for (const TaskInput& input : rolled.inputs)
    if (rolled.registers[input.value].micro_batch.index >= 0)
      repeats[input.value] = Repeats::kInput;
  for (const Instruction& instruction : rolled.instructions)
    if (instruction.micro_batch >= 0)
      for (RegisterIndex reg : instruction.writes())
        repeats[reg] = is_sum_over_micro_batches(instruction)      ? Repeats::kSum
                       : is_same_in_each(rolled, instruction, reg) ? Repeats::kSame
                                                                   : Repeats::kEach;
  return repeats;
}

/// A register of the rolled program in one micro-batch.
Register in_micro_batch(const Register& each, int micro_batch) {
  Register reg = each;
  reg.name = with_micro_batch(each.name, std::to_string(micro_batch));
  MicroBatch& part = reg.micro_batch;
  if (part.index < 0) return reg;  // a copy, for one pass, of what is there once a step
  part.index = micro_batch;
  if (part.dim < 0) return reg;
  const int64_t chunks = reg.chunk.dim == part.dim ? reg.chunk.count : 1;
  part.begin = micro_batch * reg.type.shape[part.dim] * chunks;
  return reg;
}

void put_into_arena(Register& reg) {
  reg.storage = Register::Storage::kArena;
  reg.variable = -1;
}

/// The sum up to a micro-batch that is not the last one.
Register sum_so_far(const Register& complete, int micro_batch) {
  Register reg = complete;
  reg.name += ".sum #" + std::to_string(micro_batch);
  reg.micro_batch = {micro_batch, -1, 0};
  put_into_arena(reg);
  return reg;
}

class Unroller {
 public:
  explicit Unroller(Program rolled)
      : rolled_(std::move(rolled)),
        count_(rolled_.rolled->micro_batches),
        repeats_(repeats_of_registers(rolled_)) {
    find_aliases();
  }

  Program run(const InstanceOrder& order) {
    made_.meshes = std::move(rolled_.meshes);
    made_.mesh_of_stage = std::move(rolled_.mesh_of_stage);
    made_.devices = std::move(rolled_.devices);
    made_.kernels = std::move(rolled_.kernels);
    made_.registers.reserve(static_cast<int>(places_.size()));
    add_registers();
    made_.instructions.reserve(static_cast<int>(order.size()));
    for (const InstructionInstance& instance : order) add(instance);
    for (TaskInput& input : rolled_.inputs) add_input(input);
    for (TaskVariable& variable : rolled_.variables) {
      variable.value = whole(variable.value);
      made_.variables.push_back(std::move(variable));
    }
    for (RegisterIndex next : rolled_.next)
      made_.next.push_back(next.is_none() ? next : whole(next));
    for (auto& [name, reg] : rolled_.results) made_.results.emplace_back(name, whole(reg));
    return std::move(made_);
  }

 private:
  // ---- registers ----

  /// In the first micro-batch a sum is the value that is added up.
  void find_aliases() {
    first_places_.resize(rolled_.registers.size());
    int places = 0;
    for (RegisterIndex reg : rolled_.registers.indices()) {
      first_places_[reg] = places;
      places += repeats_[reg] == Repeats::kOnce ? 1 : count_;
    }
    places_.resize(places);
    summands_.resize(rolled_.registers.size());
    for (const Instruction& instruction : rolled_.instructions)
      if (instruction.micro_batch >= 0 && is_sum_over_micro_batches(instruction))
        summands_[instruction.kernel()->outputs.front()] = instruction.kernel()->inputs.front();
  }

  RegisterIndex& place(RegisterIndex reg, int micro_batch) {
    return places_[first_places_[reg] + (repeats_[reg] == Repeats::kOnce ? 0 : micro_batch)];
  }
  bool is_whole(RegisterIndex reg) const {
    return repeats_[reg] == Repeats::kOnce || repeats_[reg] == Repeats::kSum ||
           repeats_[reg] == Repeats::kSame;
  }
  /// The register that has the value of the whole step.
  RegisterIndex whole(RegisterIndex reg) {
    ensure(is_whole(reg), "what is used once a step is made once a step");
    return place(reg, repeats_[reg] == Repeats::kSum ? count_ - 1 : 0);
  }
  /// The register that an instance reads.
  RegisterIndex read(RegisterIndex reg, int micro_batch) {
    if (is_whole(reg)) return whole(reg);
    ensure(micro_batch >= 0, "a value of each micro-batch is read in a micro-batch");
    return place(reg, micro_batch);
  }

  void add_registers() {
    RegisterIndex begin(0);
    for (const RolledForm::LoweredOp& op : rolled_.rolled->ops) {
      add_registers(begin, op.first_register);
      begin = op.first_register;
    }
    add_registers(begin, rolled_.registers.end_index());
  }

  /// Those of one op.
  void add_registers(RegisterIndex begin, RegisterIndex end) {
    const auto is_once = [&](RegisterIndex reg) { return repeats_[reg] == Repeats::kOnce; };
    const IndexRange<RegisterIndex> list(begin, end);
    const int count = std::all_of(list.begin(), list.end(), is_once) ? 1 : count_;
    for (int i = 0; i < count; ++i)
      for (RegisterIndex reg : list) add_register(reg, i);
  }

  void add_register(RegisterIndex index, int micro_batch) {
    Register& reg = rolled_.registers[index];
    RegisterIndex& made = place(index, micro_batch);
    switch (repeats_[index]) {
      case Repeats::kOnce:
        if (micro_batch == 0) made = made_.registers.push_back(std::move(reg));
        return;
      case Repeats::kEach:
        made = made_.registers.push_back(in_micro_batch(reg, micro_batch));
        return;
      case Repeats::kSame:
        made = made_.registers.push_back(reg);
        if (micro_batch > 0) put_into_arena(made_.registers[made]);
        return;
      case Repeats::kInput:
        for (int i = 0; micro_batch == 0 && i < count_; ++i)
          place(index, i) = made_.registers.push_back(in_micro_batch(reg, i));
        return;
      case Repeats::kSum:
        if (micro_batch == 0)
          made = place(summands_[index], 0);
        else
          made = made_.registers.push_back(micro_batch + 1 < count_ ? sum_so_far(reg, micro_batch)
                                                                    : std::move(reg));
    }
  }

  void add_input(const TaskInput& input) {
    const int count = repeats_[input.value] == Repeats::kOnce ? 1 : count_;
    for (int i = 0; i < count; ++i)
      made_.inputs.push_back({input.name, place(input.value, i), input.type});
  }

  // ---- instructions ----

  void add(const InstructionInstance& instance) {
    const int i = instance.micro_batch;
    Instruction& each = rolled_.instructions[instance.instruction];
    Instruction& made = made_.instructions.emplace_back();
    if (i < 0 || i + 1 == count_)
      made = std::move(each);
    else
      made = each;
    if (i >= 0) made.micro_batch = i;
    made.pass = instance.pass;
    if (const auto varying = std::exchange(made.by_micro_batch, nullptr); varying && i > 0)
      vary(*made.kernel(), *varying, i);
    set_registers(made, i);
  }

  static void vary(KernelStep& kernel, const MicroBatchKernel& varying, int micro_batch) {
    for (size_t k = 0; k < varying.int_steps.size(); ++k)
      kernel.call.ints[k].constant += micro_batch * varying.int_steps[k];
    if (varying.control) kernel.control = varying.control(micro_batch);
  }

  void set_registers(Instruction& made, int micro_batch) {
    const auto set_read = [&](RegisterIndex& reg) { reg = read(reg, micro_batch); };
    const auto set_written = [&](RegisterIndex& reg) { reg = place(reg, micro_batch); };
    if (KernelStep* kernel = made.kernel()) {
      std::for_each(kernel->inputs.begin(), kernel->inputs.end(), set_read);
      if (micro_batch > 0 && is_sum_over_micro_batches(made))
        kernel->inputs.insert(kernel->inputs.begin(),
                              place(kernel->outputs.front(), micro_batch - 1));
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
  IndexedVector<RegisterIndex, Repeats> repeats_;
  /// The registers of the unrolled program: by register and micro-batch, from first_places_ on.
  std::vector<RegisterIndex> places_;
  IndexedVector<RegisterIndex, int> first_places_;
  IndexedVector<RegisterIndex, RegisterIndex> summands_;  // by sum: what is added to it
};

}  // namespace

bool is_same_in_each(const Program& rolled, const Instruction& writer, RegisterIndex reg) {
  const KernelStep* kernel = writer.kernel();
  return kernel && writer.micro_batch >= 0 && kernel->purpose == KernelPurpose::kOp &&
         kernel->workspace != reg && rolled.registers[reg].micro_batch.index < 0;
}

InstanceOrder order_by_op(const Program& rolled) {
  ensure(rolled.rolled.has_value(), "only a rolled program has instances of its instructions");
  InstanceOrder order;
  const auto add = [&](InstructionIndex begin, InstructionIndex end) {
    const IndexRange<InstructionIndex> list(begin, end);
    const bool has_each = std::any_of(list.begin(), list.end(), [&](InstructionIndex index) {
      return rolled.instructions[index].micro_batch >= 0;
    });
    for (int i = 0; i < (has_each ? rolled.rolled->micro_batches : 1); ++i)
      for (InstructionIndex index : list) {
        const Instruction& instruction = rolled.instructions[index];
        if (instruction.micro_batch < 0 && i == 0) order.push_back({index, -1});
        if (instruction.micro_batch >= 0 && (i > 0 || !is_sum_over_micro_batches(instruction)))
          order.push_back({index, i});
      }
  };
  InstructionIndex begin(0);
  for (const RolledForm::LoweredOp& op : rolled.rolled->ops) {
    add(begin, op.first_instruction);
    begin = op.first_instruction;
  }
  add(begin, rolled.instructions.end_index());
  return order;
}

InstanceOrder instances(const Program& program) {
  if (program.rolled)
    return program.rolled->order.empty() ? order_by_op(program) : program.rolled->order;
  InstanceOrder order;
  for (InstructionIndex i : program.instructions.indices())
    order.push_back({i, program.instructions[i].micro_batch, program.instructions[i].pass});
  return order;
}

Program unroll(Program program) {
  if (!program.rolled) return program;
  const InstanceOrder order = instances(program);
  return Unroller(std::move(program)).run(order);
}

}  // namespace tessera
