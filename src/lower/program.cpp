#include "lower/program.h"

#include "base/text.h"

namespace tessera {

std::vector<RegisterIndex> Instruction::reads() const { return is_exchange ? std::vector{source} : step.inputs; }

std::vector<RegisterIndex> Instruction::writes() const {
  if (is_exchange) return {target};
  std::vector<RegisterIndex> list = step.outputs;
  if (step.workspace >= 0) list.push_back(step.workspace);
  return list;
}

std::string to_text(const Program& program) {
  const auto names = [&](const std::vector<RegisterIndex>& list) {
    std::vector<std::string> texts;
    for (RegisterIndex reg : list) {
      const Register& r = program.registers[static_cast<size_t>(reg)];
      texts.push_back(r.name + " " + to_text(r.type, r.attr));
    }
    return join(texts, ", ");
  };
  std::string text = "mesh " + to_text(*program.mesh) + "\n";
  for (const Instruction& instruction : program.instructions) {
    const std::string what = instruction.is_exchange ? std::string(to_text(instruction.exchange.kind)) : instruction.step.call.kernel;
    const std::vector<RegisterIndex> outputs = instruction.is_exchange ? std::vector{instruction.target} : instruction.step.outputs;
    text += names(outputs) + " = " + what + "(" + names(instruction.reads()) + ")\n";
  }
  return text;
}

}  // namespace tessera
