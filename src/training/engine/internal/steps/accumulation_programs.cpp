#include "training/engine/internal/steps/accumulation_programs.h"

#include "ir/autodiff/optimizer.h"
#include "training/engine/internal/steps/step_parts.h"

namespace tessera {
namespace {

double scalar_of(const TensorMap& results, const std::string& name) {
  const auto found = results.find(name);
  return found == results.end() ? 0.0 : found->second.values<float>()[0];
}

}  // namespace

AccumulationPrograms::AccumulationPrograms(ProgramSet& programs, const OnCompiled& on_compiled)
    : runtime_(programs.runtime()),
      loss_(programs.network().loss),
      apply_inputs_({{std::string(kGradientScaleInput), &scale_},
                     {std::string(kLearningRateInput), &rate_},
                     {std::string(kStepInput), &step_}}) {
  const StepParts made =
      step_parts(programs.network(), programs.settings(), programs.plan(), programs.main());
  for (const MadeGradient& gradient : made.gradients)
    parameters_.emplace_back(gradient.parameter, gradient.type);
  std::vector<LoadedProgram*> loaded;
  for (const PlannedProgram& part : made.parts) {
    Compiled compiled =
        compile(part.graph, part.plan, options_for(part.purpose, programs.options()));
    if (on_compiled) on_compiled(part.purpose, part.graph, compiled);
    LoadedProgram& program =
        runtime_.load(std::make_shared<const TaskGraph>(std::move(compiled.tasks)));
    // This initializes only the gradients, because the other variables are set.
    runtime_.initialize(program, programs.settings().train.seed);
    loaded.push_back(&program);
  }
  accumulate_ = loaded.at(0);
  reduce_ = loaded.at(1);
  apply_ = loaded.at(2);
}

double AccumulationPrograms::accumulate(const std::map<std::string, const Tensor*>& inputs) {
  runtime_.run(*accumulate_, inputs, accumulate_results_);
  return scalar_of(accumulate_results_, loss_);
}

void AccumulationPrograms::drop() {
  for (const auto& [parameter, type] : parameters_)
    for (const std::string& name : {accumulated_name(parameter), reduced_name(parameter)})
      runtime_.set_variable(name, Tensor(type));
}

void AccumulationPrograms::reduce() {
  runtime_.run(*reduce_, {}, reduce_results_);
}

double AccumulationPrograms::apply(double scale, double learning_rate, int64_t step) {
  scale_.values<float>()[0] = static_cast<float>(scale);
  rate_.values<float>()[0] = static_cast<float>(learning_rate);
  step_.values<int32_t>()[0] = static_cast<int32_t>(step);
  runtime_.run(*apply_, apply_inputs_, apply_results_);
  return scalar_of(apply_results_, "grad_norm");
}

}  // namespace tessera
