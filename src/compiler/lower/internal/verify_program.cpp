#include "compiler/lower/internal/verify_program.h"

#include <string>

#include "base/error.h"
#include "compiler/lower/internal/instances.h"

namespace tessera {
namespace {

class Verifier {
 public:
  Verifier(const Program& program, std::string_view pass)
      : program_(program),
        pass_(pass),
        order_(instances(program)),
        registers_(program),
        is_filled_(registers_.size(), false) {}

  void run() {
    for (const ProgramInput& input : program_.inputs) fill(input.value);
    for (const ProgramVariable& variable : program_.variables) fill(variable.value);
    for (const Instruction& instruction : program_.instructions)
      if (const ExchangeStep* step = instruction.exchange()) check_exchange(instruction, *step);
    for (Time time : order_.indices()) check_instance(time);
    for (const auto& [name, reg] : program_.results)
      if (!is_filled_[registers_.whole(reg)]) fail("result '" + name + "' is not computed");
    for (RegisterFormIndex next : program_.next)
      if (!next.is_none() && !is_filled_[registers_.whole(next)])
        fail("the next value '" + program_.registers[next].name + "' is not computed");
  }

 private:
  const RegisterForm& reg(RegisterFormIndex index) const { return program_.registers[index]; }

  void fill(RegisterFormIndex fed) {
    for (RegisterIndex instance : registers_.at(fed)) is_filled_[instance] = true;
  }

  void check_instance(Time time) {
    const auto& [index, micro_batch, pass, issue_after] = order_[time];
    ensure(program_.instructions.contains(index), "the order of a program names its instructions");
    const Instruction& instruction = program_.instructions[index];
    registers_.for_each_read(instruction, micro_batch, [&](RegisterIndex reg) {
      if (!is_filled_.contains(reg) || !is_filled_[reg])
        offence(instruction, "reads a register that nothing filled before");
    });
    if (!issue_after.is_none() && (!instruction.exchange() || issue_after >= time))
      offence(instruction, "is to be issued after a later instruction");
    registers_.for_each_written(instruction, micro_batch, [&](RegisterIndex reg) {
      if (!is_filled_.contains(reg) || is_filled_[reg])
        offence(instruction, "writes a register that is filled already");
      is_filled_[reg] = true;
    });
  }

  void check_exchange(const Instruction& instruction, const ExchangeStep& step) const {
    const size_t count = step.parts.size();
    if (count == 0 || step.sources.size() != count || step.targets.size() != count)
      offence(instruction, "has not one source and one target for each of its parts");
    for (size_t k = 0; k < count; ++k)
      if (!(reg(step.sources[k]).attr == step.parts[k].exchange.from) ||
          !(reg(step.targets[k]).attr == step.parts[k].exchange.to))
        offence(instruction, "exchanges other placements than its registers have");
  }

  [[noreturn]] void offence(const Instruction& instruction, const std::string& what) const {
    const std::ptrdiff_t i = &instruction - program_.instructions.elements().data();
    fail("instruction " + std::to_string(i) + " (" + to_text(program_, instruction) + ") " + what);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw InternalError("after the compiler pass '" + std::string(pass_) + "': " + what);
  }

  const Program& program_;
  std::string_view pass_;
  const InstanceOrder order_;
  const RegisterInstances registers_;
  IndexedVector<RegisterIndex, bool> is_filled_;
};

}  // namespace

void verify(const Program& program, std::string_view pass) {
  Verifier(program, pass).run();
}

}  // namespace tessera
