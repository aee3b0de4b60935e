#include "compiler/lower/internal/program.h"

#include "base/text/text.h"
#include "task_graph/tasks/register_hash.h"

namespace tessera {
namespace {

/// With an "i" for the number of the micro-batch where the program is rolled.
std::string name_of(const Program& program, RegisterFormIndex reg) {
  return NameTemplate(program.registers[reg].name.text()).with("i");
}

std::string names(const Program& program, std::span<const RegisterFormIndex> list) {
  std::vector<std::string> texts;
  for (RegisterFormIndex reg : list) texts.push_back(name_of(program, reg));
  return join(texts, ", ");
}

std::string types(const Program& program, const std::vector<RegisterFormIndex>& list) {
  std::vector<std::string> texts;
  for (RegisterFormIndex reg : list)
    texts.push_back(to_text(program.registers[reg].type, program.registers[reg].attr));
  return join(texts, ", ");
}

/// " in place of w": the results that are written over a variable.
std::string place_text(const Program& program, const std::vector<RegisterFormIndex>& outputs) {
  std::string text;
  for (RegisterFormIndex reg : outputs)
    if (program.registers[reg].storage == Register::Storage::kVariable)
      text += " in place of " + program.variables[program.registers[reg].variable].name;
  return text;
}

std::string reasons(const ExchangeStep& exchange) {
  std::vector<std::string> texts;
  for (const ExchangePart& part : exchange.parts)
    if (!part.reason.empty()) texts.push_back(part.reason);
  return join(texts, "; ");
}

}  // namespace

std::span<const RegisterFormIndex> Instruction::reads() const {
  if (kernel()) return kernel()->inputs;
  if (exchange()) return exchange()->sources;
  return {&copy()->source, 1};
}

WrittenRegisters Instruction::writes() const {
  if (kernel()) return {kernel()->outputs, kernel()->workspace};
  if (exchange()) return {exchange()->targets, {}};
  return {{&copy()->target, 1}, {}};
}

bool is_sum_over_micro_batches(const Instruction& instruction) {
  const KernelForm* kernel = instruction.kernel();
  return kernel && kernel->purpose == KernelPurpose::kAccumulate;
}

bool in_same_pass(const Instruction& a, const Instruction& b) {
  return a.role == b.role && a.micro_batch == b.micro_batch && a.stage == b.stage &&
         a.mesh == b.mesh && a.pass == b.pass;
}

void reorder(Program& program, std::span<const InstructionIndex> order) {
  // In their place: instructions are large, and a second list of them is slower than to sort them.
  std::vector<bool> is_done(order.size(), false);
  for (InstructionIndex first : program.instructions.indices()) {
    if (is_done[first.value()] || order[first.value()] == first) continue;
    Instruction moved = std::move(program.instructions[first]);
    InstructionIndex to = first;
    for (; order[to.value()] != first; to = order[to.value()]) {
      program.instructions[to] = std::move(program.instructions[order[to.value()]]);
      is_done[to.value()] = true;
    }
    program.instructions[to] = std::move(moved);
    is_done[to.value()] = true;
  }
}

namespace {

/// The hash of each register, made when it is asked for.
class RegisterHashes {
 public:
  explicit RegisterHashes(const Program& program)
      : program_(program), hashes_(program.registers.size()) {}

  size_t at(RegisterFormIndex index) {
    std::optional<size_t>& hash = hashes_[index];
    if (!hash) hash = computed(program_.registers[index]);
    return *hash;
  }

 private:
  size_t computed(const RegisterForm& reg) const {
    Hasher hasher;
    hasher.add(reg.name.pattern());
    hasher.add(reg.micro_batch.index);
    add_placed_type(hasher, reg);
    if (reg.storage == Register::Storage::kVariable)
      hasher.add(program_.variables[reg.variable].name);
    return hasher.value();
  }

  const Program& program_;
  IndexedVector<RegisterFormIndex, std::optional<size_t>> hashes_;
};

}  // namespace

uint64_t hash_of(const Program& program) {
  Hasher hasher;
  RegisterHashes registers(program);
  const auto add_registers = [&](const auto& list) {
    for (const RegisterFormIndex reg : list) hasher.add(registers.at(reg));
  };
  for (const MeshPtr& mesh : program.meshes) hasher.add(to_text(*mesh));
  for (const ProgramInput& input : program.inputs) hasher.add(registers.at(input.value));
  for (const ProgramVariable& variable : program.variables)
    hasher.add(registers.at(variable.value));
  for (const Instruction& instruction : program.instructions) {
    hasher.add(instruction.step.index());
    hasher.add(static_cast<int>(instruction.role));
    if (const KernelForm* kernel = instruction.kernel()) hasher.add(kernel->call->kernel);
    if (const ExchangeStep* exchange = instruction.exchange())
      hasher.add(static_cast<int>(exchange->kind()));
    add_registers(instruction.reads());
    add_registers(instruction.writes());
  }
  for (const auto& [name, reg] : program.results) hasher.add(registers.at(reg));
  for (const RegisterFormIndex next : program.next)
    hasher.add(next.is_none() ? 0 : registers.at(next));
  return hasher.value();
}

std::string to_text(const Program& program, const Instruction& instruction) {
  std::vector<RegisterFormIndex> outputs;
  std::string what, reason;
  if (const KernelForm* kernel = instruction.kernel()) {
    outputs = kernel->outputs;
    what = kernel->call->kernel;
  } else if (const ExchangeStep* exchange = instruction.exchange()) {
    outputs = exchange->targets;
    what = to_text(exchange->kind());
    reason = reasons(*exchange);
  } else {
    outputs = {instruction.copy()->target};
    what = "copy between device and host";
  }
  std::string text = names(program, outputs) + " = " + what + "(" +
                     names(program, instruction.reads()) + "): " + types(program, outputs);
  if (instruction.role != Role::kForward) text += " @" + std::string(to_text(instruction.role));
  text += place_text(program, outputs);
  return text + (reason.empty() ? "" : " <- " + reason) + "\n";
}

std::string to_text(const Program& program) {
  std::string text;
  for (const MeshPtr& mesh : program.meshes) text += "mesh " + to_text(*mesh) + "\n";
  for (const ProgramInput& input : program.inputs)
    text += "input " + input.name + ": " + types(program, {input.value}) + "\n";
  for (const ProgramVariable& variable : program.variables)
    text += "variable " + variable.name + ": " + types(program, {variable.value}) + "\n";
  for (const Instruction& instruction : program.instructions) text += to_text(program, instruction);
  for (const auto& [name, reg] : program.results)
    text += "output " + name + " = " + names(program, {&reg, 1}) + "\n";
  for (size_t v = 0; v < program.variables.size(); ++v)
    if (!program.next[v].is_none())
      text += "next " + program.variables[v].name + " = " +
              program.registers[program.next[v]].name + "\n";
  return text;
}

}  // namespace tessera
