#include "observed_run.h"

#include <fmt/format.h>

namespace tessera {

ObservedStep run_observed(Runtime& runtime, LoadedProgram& program,
                          const std::map<std::string, const Tensor*>& inputs) {
  ObservedStep step;
  // All entries exist before the threads of the ranks fill theirs.
  for (const Register& reg : program.graph().registers) step.held[reg.name].resize(runtime.ranks());
  const Observer observer = [&](Rank rank, RegisterIndex index, const Coordinate& coordinate,
                                const std::byte* data) {
    const Register& reg = program.graph().registers[index];
    if (reg.type->dtype != DType::kF32) return;
    const Box box = reg.attr.box(reg.type->shape, coordinate);
    const auto* values = reinterpret_cast<const float*>(data);
    step.held.at(reg.name)[rank] = {box, {values, values + element_count(box.shape())}};
  };
  runtime.run(program, inputs, step.results, &observer);
  return step;
}

std::string values_text(const Held& held) {
  const Shape shape = held.box.shape();
  const int64_t row = shape.empty() ? 1 : shape[shape.size() - 1];
  std::string text;
  for (size_t i = 0; i < held.values.size(); ++i) {
    if (i > 0) text += static_cast<int64_t>(i) % row == 0 ? " | " : " ";
    text += fmt::format("{:.4g}", held.values[i]);
  }
  return text;
}

}  // namespace tessera
