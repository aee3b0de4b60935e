#include "tools/fuzz/internal/random_program.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "ir/autodiff/gradient.h"
#include "ir/autodiff/optimizer.h"
#include "ir/precision/precision.h"
#include "tools/fuzz/internal/program_maker.h"

namespace tessera::fuzz {
namespace {

/// Adds an op by a generator that is sampled by weight.
class ProgramGenerator {
 public:
  ProgramGenerator() {
    for (const auto family : {elementwise_ops(), integer_ops(), movement_ops(), contraction_ops(),
                              dynamic_ops(), spatial_ops(), control_ops()})
      for (const OpGenerator& generator : family) {
        generators_.push_back(&generator);
        weights_ += generator.weight;
      }
  }

  bool add_op(ProgramMaker& maker) const {
    int64_t rest = maker.dice().below(weights_);
    for (const OpGenerator* generator : generators_) {
      rest -= generator->weight;
      if (rest < 0) return generator->add(maker);
    }
    throw InternalError("the sample is below the sum of the weights");
  }

 private:
  std::vector<const OpGenerator*> generators_;
  int64_t weights_ = 0;
};

void begin(ProgramMaker& maker) {
  for (int64_t i = maker.dice().between(1, 3); i > 0; --i)
    maker.new_input({DType::kF32, maker.random_shape(1, 3)});
  for (int64_t i = maker.dice().between(1, 3); i > 0; --i)
    maker.new_variable({DType::kF32, maker.random_shape(0, 3)});
  if (maker.dice().chance(0.4)) maker.new_input({DType::kI32, maker.random_shape(0, 2)});
  if (maker.dice().chance(0.3)) maker.new_variable({DType::kI32, maker.random_shape(0, 2)});
  if (maker.dice().chance(0.2)) maker.new_variable({DType::kBool, maker.random_shape(1, 2)});
}

ValueId sum_of(ProgramMaker& maker, const Known& x) {
  std::vector<int64_t> dims(static_cast<size_t>(maker.shape(x).size()));
  std::iota(dims.begin(), dims.end(), 0);
  const ValueId sum = maker.builder().reduce_sum(x.id, dims);
  if (maker.exact()) return sum;
  return maker.builder().mul_scalar(
      sum, 1.0 / static_cast<double>(std::max<int64_t>(element_count(maker.shape(x)), 1)));
}

/// A scalar through which gradients reach variables; nullopt when no variable is reached.
std::optional<ValueId> make_loss(ProgramMaker& maker) {
  std::vector<Known> trained;
  for (const Known& x : maker.pool())
    if (x.trained) trained.push_back(x);
  if (trained.empty()) return std::nullopt;
  std::optional<ValueId> loss;
  for (int64_t terms = maker.dice().between(1, maker.exact() ? 2 : 3); terms > 0; --terms) {
    const auto count = static_cast<int64_t>(trained.size());
    const ValueId term =
        sum_of(maker, trained[std::max(maker.dice().below(count), maker.dice().below(count))]);
    loss = loss ? maker.builder().add(*loss, term) : term;
  }
  maker.graph().add_output("loss", *loss);
  return loss;
}

/// w - g, limited to [-3, 3].
ValueId exact_step(Builder& builder, ValueId w, ValueId gradient) {
  return builder.min_scalar(builder.max_scalar(builder.sub(w, gradient), -3), 3);
}

ValueId small_step(Builder& builder, ValueId w, ValueId gradient) {
  return builder.sub(w, builder.mul_scalar(gradient, 0.125));
}

void train_by_hand(ProgramMaker& maker, ValueId loss) {
  std::vector<ValueId> targets;
  for (const Variable& variable : maker.graph().variables())
    if (variable.trainable && maker.dice().chance(0.8)) targets.push_back(variable.value);
  const std::vector<ValueId> gradients = differentiate(maker.builder(), loss, targets);
  maker.builder().derive(Role::kOptimizer, {});
  for (size_t i = 0; i < targets.size(); ++i) {
    const ValueId next = maker.exact() ? exact_step(maker.builder(), targets[i], gradients[i])
                                       : small_step(maker.builder(), targets[i], gradients[i]);
    maker.graph().set_next(targets[i], next);
  }
}

void train_by_optimizer(ProgramMaker& maker, ValueId loss) {
  OptimizerConfig config;
  config.kind = maker.dice().pick(std::vector<OptimizerKind>{
      OptimizerKind::kSgd, OptimizerKind::kMomentum, OptimizerKind::kAdam, OptimizerKind::kAdamW});
  config.epsilon = 0.01;  // so that a rounding error cannot change the sign of an update
  config.weight_decay = maker.dice().chance(0.5) ? 0.01 : 0;
  config.clip_norm = maker.dice().chance(0.4) ? 0.5 : 0;
  maker.step();
  add_training(maker.builder(), loss, config);
  maker.fills()[std::string(kLearningRateInput)] = {false, 0.01, 0.1};
}

/// The loss may depend on a variable through an operator without gradient alone, such as `not` of a
/// comparison. Such a program is not trained: it keeps its loss, and what was made of its backward.
void train(ProgramMaker& maker, ValueId loss) {
  try {
    if (!maker.exact() && maker.dice().chance(0.4))
      train_by_optimizer(maker, loss);
    else
      train_by_hand(maker, loss);
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadData) throw;
  }
}

/// Changes state that no gradient changes: its next value is any value of its type, such as another
/// variable, or two variables are swapped.
void move_other_state(ProgramMaker& maker) {
  Graph& graph = maker.graph();
  const std::vector<Variable> variables = graph.variables();
  for (const Variable& variable : variables) {
    if (graph.variable_of(variable.value)->next || maker.dice().chance(0.4)) continue;
    std::vector<ValueId> fitting;
    for (int i = 0; i < static_cast<int>(graph.values().size()); ++i)
      if (graph.type({i}) == graph.type(variable.value)) fitting.push_back({i});
    const ValueId next = maker.dice().pick(fitting);
    graph.set_next(variable.value, next);
    if (graph.variable_of(next) && next != variable.value && !graph.variable_of(next)->next &&
        maker.dice().chance(0.5))
      graph.set_next(next, variable.value);
  }
}

void name_outputs(ProgramMaker& maker) {
  for (int64_t i = maker.dice().between(1, 3); i > 0; --i)
    maker.graph().add_output("out" + std::to_string(i), maker.dice().pick(maker.pool()).id);
}

}  // namespace

/// The precisions of a case. A dice of its own keeps the programs of all seeds except for the
/// casts.
struct Precisions {
  DType dtype = DType::kF32;
  /// nullopt: gradients are rounded as they are made, and reduced as the plan has it.
  std::optional<DType> gradients;

  explicit Precisions(uint64_t seed) {
    Dice dice(seed, "precision");
    if (!dice.chance(0.25)) return;
    dtype = dice.chance(0.5) ? DType::kBF16 : DType::kF16;
    if (dice.chance(0.7))
      gradients = DType::kF32;
    else if (dice.chance(0.5))
      gradients = dtype;
  }
};

RandomProgram random_program(uint64_t seed, bool exact, int64_t micro_batches) {
  static const ProgramGenerator generator;
  ProgramMaker maker(seed, exact, micro_batches);
  begin(maker);
  for (int64_t steps = maker.dice().between(3, 18); steps > 0; --steps) generator.add_op(maker);
  name_outputs(maker);
  const Precisions precisions(seed);
  Graph& graph = maker.graph();
  if (maker.dice().chance(0.7)) {
    const bool has_loss = make_loss(maker).has_value();
    graph = with_precision(std::move(graph), precisions.dtype);
    if (has_loss) train(maker, graph.output("loss"));
  } else {
    graph = with_precision(std::move(graph), precisions.dtype);
  }
  move_other_state(maker);
  // A cast of parts is not exact.
  if (precisions.gradients && !(exact && *precisions.gradients != DType::kF32))
    graph = with_gradients_in(graph, *precisions.gradients).graph;
  verify(maker.graph());
  return {maker.graph(), maker.fills()};
}

}  // namespace tessera::fuzz
