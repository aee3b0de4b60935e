#include "verify/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "engine/batch_rule.h"
#include "network/family.h"
#include "network/graphs.h"
#include "ops/interpreter.h"
#include "verify/capture.h"

namespace tessera {
namespace {

/// The rounding errors of a run are far below their bounds; the perturbed interpreter uses the
/// bounds, with random signs. Four times its effect allows for less favourable signs.
constexpr double kSafety = 4;

/// Infinity itself is in range: masks use it.
bool is_in_range(double value) {
  return std::abs(value) <= std::numeric_limits<float>::max() || std::isinf(value);
}

class Verification {
 public:
  Verification(const Network& network, const TrainingSettings& settings, const Plan& plan,
               std::shared_ptr<const RunData> data, const VerifyOptions& options)
      : options_(options),
        data_(std::move(data)),
        engine_(network, settings, plan, data_,
                {.runtime = {},
                 .rules = options.rules,
                 .check_placements = options.check_placements,
                 .verify_passes = options.verify_passes}),
        serial_(network, settings, serial_plan(), data_),
        nudged_(network, settings, serial_plan(), data_),
        sampler_({.samples = data_->train->samples(),
                  .batch = settings.train.batch,
                  .parts = 1,
                  .shuffle = settings.order.shuffle == Shuffle::kNone ? Shuffle::kNone
                                                                      : Shuffle::kBeforeSplit,
                  .tail = settings.order.tail,
                  .seed = settings.train.seed}) {}

  VerifyReport run() {
    report_.ok = true;
    report_.removed_values =
        std::ssize(engine_.graph().values()) - std::ssize(engine_.compiled().graph.values());
    report_.notes = engine_.compiled().sharded.notes;
    compare_initial();
    // After a difference the state is no longer the serial one, so nothing can be compared.
    for (int64_t step = 0; step < options_.steps && !report_.first_difference; ++step) {
      Batch batch = data_->train->batch(sampler_, step, {0, sampler_.options().batch});
      one_step(step, batch);
      if (options_.on_step) options_.on_step(step);
    }
    report_.ok = report_.ok && !report_.first_difference;
    return report_;
  }

 private:
  void compare_initial() {
    const TensorMap mine = engine_.variables(), theirs = serial_.variables();
    for (const auto& [name, tensor] : mine) {
      const Tensor& other = theirs.at(name);
      if (std::memcmp(tensor.data(), other.data(),
                      static_cast<size_t>(byte_size(tensor.type()).value())) == 0)
        continue;
      const ReferenceTensor a = to_reference(tensor), b = to_reference(other);
      size_t at = 0;
      while (at + 1 < a.values.size() && a.values[at] == b.values[at]) ++at;
      note(
          {0, "initialization", name, "", static_cast<int64_t>(at), a.values[at], b.values[at], 0});
      return;
    }
  }

  void one_step(int64_t step, const Batch& batch) {
    const bool compare = options_.tensor_steps == 0 || step < options_.tensor_steps;
    if (compare) interpret_step(step, batch);
    Capture capture(engine_.compiled().tasks);
    const Observer observer = capture.observer();
    const double loss = engine_.step(batch, compare ? &observer : nullptr).loss;
    if (compare) compare_tensors(step, capture);
    const double serial_loss = serial_.step(batch).loss;
    const double nudged_loss = nudged_.step(batch).loss;
    nudge();
    // The possible effect of rounding on the loss so far: in its own step, and through the state.
    loss_drift_ = std::max(loss_drift_, std::abs(nudged_loss - serial_loss));
    const double tolerance = kSafety * loss_drift_ + loss_tolerance_;
    report_.losses.push_back(loss);
    report_.serial_losses.push_back(serial_loss);
    report_.loss_tolerances.push_back(tolerance);
    if (!(std::abs(loss - serial_loss) <= tolerance))
      note({step, "loss", "loss", "", 0, loss, serial_loss, tolerance});
  }

  /// Runs the reference interpreter, plain and perturbed, from the present state of the plan.
  void interpret_step(int64_t step, const Batch& batch) {
    ReferenceValues state;
    for (const auto& [name, tensor] : engine_.variables()) state[name] = to_reference(tensor);
    for (const std::string& name : data_inputs(engine_.graph()))
      state[name] = to_reference(batch.at(name));
    state[std::string(kStepInput)] = to_reference(Tensor::scalar(static_cast<int32_t>(step)));
    state[std::string(kLearningRateInput)] = to_reference(Tensor::scalar(
        static_cast<float>(learning_rate(engine_.config().optimizer.schedule, step))));
    expected_ = interpret(engine_.graph(), state);
    changes_.clear();
    perturbed_ = interpret(engine_.graph(), state,
                           {.perturb = static_cast<uint64_t>(step) + 1, .tolerances = &changes_});
    for (const auto& [name, tensor] : expected_)
      changes_[name] += largest_change(tensor, perturbed_.at(name));
    check_is_finite(step);
    const Graph& graph = engine_.graph();
    loss_tolerance_ = kSafety * changes_.at(graph.value(graph.output(engine_.network().loss)).name);
  }

  /// NaN differs from NaN, so a run that diverges would look like a fault of the plan.
  void check_is_finite(int64_t step) const {
    for (const auto& [name, tensor] : expected_) {
      if (std::ranges::all_of(tensor.values, is_in_range) &&
          std::ranges::all_of(perturbed_.at(name).values, is_in_range) &&
          std::isfinite(changes_.at(name)))
        continue;
      throw UserError("the serial program diverged: '" + name + "' left the range of f32 in step " +
                          std::to_string(step + 1),
                      "a plan can be compared only with numbers that have a finite rounding error",
                      "lower optimizer.learning_rate, or compare fewer steps by --steps",
                      ExitCode::kDiverged);
    }
  }

  void compare_tensors(int64_t step, const Capture& capture) {
    const TaskGraph& tasks = engine_.compiled().tasks;
    report_.tensors = report_.exact_tensors = 0;
    for (RegisterIndex index : in_program_order(tasks)) {
      const Register& reg = tasks.registers[index];
      if (is_partial_of_micro_batches(reg)) continue;  // its sum is compared
      const std::string name = value_name(engine_.graph(), reg);
      const Capture::Whole whole = capture.assemble(index);
      ensure(whole.missing.empty(),
             "register '" + reg.name + "' was filled on every rank: " + whole.missing);
      const ReferenceTensor wanted = rows_of(expected_.at(name), reg);
      const double tolerance = kSafety * changes_.at(name);
      ++report_.tensors;
      if (tolerance == 0) ++report_.exact_tensors;
      if (whole.mismatch) {
        const size_t at = whole.mismatch->at;
        note({step, op_of(name), reg.name,
              to_text(reg.type, reg.attr) + ", replicas differ: " + to_text(*whole.mismatch),
              static_cast<int64_t>(at), whole.tensor.values[at], wanted.values[at], 0});
        continue;
      }
      compare_elements(step, name, reg, whole, wanted, tolerance);
    }
  }

  void compare_elements(int64_t step, const std::string& name, const Register& reg,
                        const Capture::Whole& got, const ReferenceTensor& wanted,
                        double tolerance) {
    for (size_t i = 0; i < got.tensor.values.size(); ++i)
      if (got.held[i] &&
          !compare_element(step, name, reg, i, got.tensor.values[i], wanted, tolerance))
        return;
    for (const auto& [at, value] : got.copies)
      if (!compare_element(step, name, reg, at, value, wanted, tolerance)) return;
  }

  bool compare_element(int64_t step, const std::string& name, const Register& reg, size_t at,
                       double value, const ReferenceTensor& wanted, double tolerance) {
    const bool is_rounded = tolerance == 0 && reg.type.dtype == DType::kF32;
    const double serial =
        is_rounded ? static_cast<double>(static_cast<float>(wanted.values[at])) : wanted.values[at];
    if (value == serial) return true;
    const double error = std::abs(value - serial);
    report_.max_error =
        std::max(report_.max_error,
                 tolerance > 0 ? error / tolerance : std::numeric_limits<double>::infinity());
    if (tolerance > 0 && error <= tolerance) return true;
    note({step, op_of(name), reg.name, to_text(reg.type, reg.attr), static_cast<int64_t>(at), value,
          serial, tolerance});
    return false;
  }

  std::string op_of(const std::string& value) const {
    const Graph& graph = engine_.graph();
    const OpId producer = graph.value(*graph.find_value(value)).producer;
    return producer.index < 0 ? value : graph.op(producer).name;
  }

  /// Changes the state of the perturbed serial run as rounding may change it in this step: by the
  /// effect of the perturbation on each element.
  void nudge() {
    for (const Variable& variable : engine_.graph().variables()) {
      if (!variable.next) continue;
      const std::string& next = engine_.graph().value(*variable.next).name;
      const std::string& name = engine_.graph().value(variable.value).name;
      const auto& plain = expected_.at(next).values;
      const auto& moved = perturbed_.at(next).values;
      Tensor value = nudged_.runtime().variable(name);
      const auto elements = value.values<float>();
      for (size_t i = 0; i < elements.size(); ++i)
        elements[i] += static_cast<float>(moved[i] - plain[i]);
      nudged_.runtime().set_variable(name, value);
    }
  }

  void note(Difference difference) {
    if (!report_.first_difference) report_.first_difference = std::move(difference);
  }

  const VerifyOptions& options_;
  std::shared_ptr<const RunData> data_;
  Engine engine_, serial_, nudged_;
  Sampler sampler_;
  VerifyReport report_;
  ReferenceValues expected_, perturbed_;  // of the interpreter, in the last step that was compared
  std::map<std::string, double>
      changes_;  // by value: what the perturbation of all ops did to it, and what its own may do
  double loss_tolerance_ = 0;
  double loss_drift_ = 0;
};

}  // namespace

VerifyReport verify_plan(const Network& network, const TrainingSettings& settings, const Plan& plan,
                         std::shared_ptr<const RunData> data, const VerifyOptions& options) {
  return Verification(network, resolved_for(settings, network, plan), plan, std::move(data),
                      options)
      .run();
}

VerifyReport verify_plan(const RunConfig& config, const Plan& plan,
                         std::shared_ptr<const RunData> data, const VerifyOptions& options) {
  return verify_plan(network_of(config.model), training_settings(config), plan, std::move(data),
                     options);
}

}  // namespace tessera
